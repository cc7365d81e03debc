package infer

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/devices"
	"exl2/internal/goldens"
	"exl2/internal/tensor"
)

// parted is a device that would have sixteen rows at once of up to three times as many, and counts the rows of its passes.
type parted struct {
	device.Device
	rows []int
}

var _ device.Fuser = (*parted)(nil)

func (*parted) Products(...device.Products) bool { return false }
func (*parted) Mixture(_, _ tensor.Tensor, _ device.Choice, _ device.Router, _ device.Experts) bool {
	return false
}
func (*parted) Attention(tensor.Tensor, device.Products, device.Mixing) bool { return false }
func (*parted) LinearAttention(tensor.Tensor, device.Products, device.LinearMixing) bool {
	return false
}
func (*parted) MixLatent(_, _, _ tensor.Tensor, _ device.LatentMixing) bool         { return false }
func (*parted) Sum(device.Sum) bool                                                 { return false }
func (*parted) MatMulGated(_, _, _, _ tensor.Tensor, _ device.Act) bool             { return false }
func (*parted) ActMulFor(_, _, _ tensor.Tensor, _ device.Act, _ device.Matrix) bool { return false }
func (*parted) AtOnce(rows int, _ device.Matrix) int {
	if rows > 48 {
		return rows
	}
	return min(rows, 16)
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
			ref := openEngine(t, dir, o, 1)
			e, p := openParted(t, dir, o)
			for _, c := range []struct {
				runs, tokens int
				want         []int
			}{{16, 1, []int{16}}, {17, 1, []int{16, 1}}, {40, 1, []int{16, 16, 8}}, {1, 16, []int{16}}, {1, 17, []int{9, 8}}, {1, 32, []int{16, 16}}, {1, 40, []int{40}}, {2, 9, []int{10, 8}}, {20, 2, []int{40}}} {
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

// What is read once more for parts counts: of a step all but the head, of a prompt all.
func TestPartsRead(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "exl2") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			o := Options{Positions: 128, Sequences: 40, Chunk: 64}
			ref := openEngine(t, dir, o, 1)
			e, _ := openParted(t, dir, o)
			if e.spec.MoE.Experts > 0 {
				t.Skip("experts are multiplied at once")
			}
			all, _ := e.BytesPerStep()
			for _, c := range []struct {
				test   Test
				tokens int
				want   int // bytes more than at once
			}{
				{Test{Batch: 16, Generate: 4}, 16, 0}, {Test{Batch: 40, Generate: 4}, 40, 2 * (all - e.head.Bytes())},
				{Test{Batch: 1, Prompt: 16}, 16, 0}, {Test{Batch: 1, Prompt: 20}, 20, all}, {Test{Batch: 1, Prompt: 64 + 17}, 64 + 17, all},
			} {
				got := (e.bytesPerToken(c.test) - ref.bytesPerToken(c.test)) * float64(c.tokens)
				if math.Abs(got-float64(c.want)) > 1 {
					t.Errorf("%+v: %v bytes more, want %d", c.test, got, c.want)
				}
			}
		})
	}
}

// openParted opens a model on such a device.
func openParted(t *testing.T, dir string, o Options) (*Engine, *parted) {
	t.Helper()
	p := &parted{Device: devtest.CPU(t)}
	e, err := open(dir, devices.List{p}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, p
}
