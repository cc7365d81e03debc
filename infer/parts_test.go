package infer

import (
	"fmt"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/devices"
	"exl2/internal/goldens"
	"exl2/internal/tensor"
)

// parted is a device that would have up to sixteen rows in each of three parts, and counts the rows of its passes.
type parted struct {
	device.Device
	rows []int
}

func (*parted) Products(...device.Products) bool { return false }
func (*parted) Mixture(_, _ tensor.Tensor, _ device.Choice, _ device.Router, _ device.Experts) bool {
	return false
}
func (*parted) Attention(tensor.Tensor, device.Products, device.Mixing) bool { return false }
func (*parted) LinearAttention(tensor.Tensor, device.Products, device.LinearMixing) bool {
	return false
}
func (*parted) ActMulFor(_, _, _ tensor.Tensor, _ device.Act, _ device.Matrix) bool { return false }
func (*parted) Parts(rows int, _ device.Matrix) int {
	if rows > 48 {
		return 1
	}
	return (rows + 15) / 16
}

func (p *parted) Embed(y, table, ids tensor.Tensor, scale float32) {
	p.rows = append(p.rows, y.Rows)
	p.Device.Embed(y, table, ids, scale)
}

// Passes of some rows are done in parts where a device computes these faster, by the same logits: steps of single tokens in as
// many as it says, prompts in two, those of experts at once.
func TestParts(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "exl2") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			const most = 40
			o := Options{Positions: 64, Sequences: most, Chunk: 64}
			ref, p := openEngine(t, dir, o, 1), &parted{Device: devtest.CPU(t)}
			e, err := open(dir, devices.List{p}, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			for _, c := range []struct {
				runs, tokens int
				want         []int
			}{{16, 1, []int{16}}, {17, 1, []int{8, 9}}, {40, 1, []int{13, 13, 14}}, {1, 16, []int{16}}, {1, 17, []int{9, 8}}, {1, 32, []int{16, 16}}, {1, 40, []int{40}}, {2, 9, []int{10, 8}}, {20, 2, []int{40}}} {
				var runs []Run
				for s := range c.runs {
					runs = append(runs, Run{Sequence: s, IDs: someIDs(c.tokens, e.spec.Vocab-s), Logits: 1})
				}
				got, want := logitsOf(t, e, runs), logitsOf(t, ref, runs)
				for i := range want {
					mustBeNear(t, fmt.Sprintf("%d runs of %d, run %d", c.runs, c.tokens, i), got[i], want[i])
				}
				if e.spec.MoE.Experts > 0 {
					c.want = []int{c.runs * c.tokens}
				}
				if !slices.Equal(p.rows, c.want) {
					t.Errorf("%d runs of %d: passes of %v rows, want %v", c.runs, c.tokens, p.rows, c.want)
				}
				p.rows = nil
			}
		})
	}
}

// logitsOf returns the logits of runs.
func logitsOf(t *testing.T, e *Engine, runs []Run) (all [][]float32) {
	t.Helper()
	err := e.Step(runs, func(_, _ int, logits [][]float32) { all = append(all, slices.Clone(logits[0])) })
	if err != nil {
		t.Fatal(err)
	}
	return all
}
