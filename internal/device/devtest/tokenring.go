package devtest

import (
	"math"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/sampling"
	"exl2/internal/tensor"
)

// testTokenRing checks that what a recording chooses comes to the host in order, however
// far the device is in front of it, and that each choice is what the next one goes on from.
func testTokenRing(t *testing.T, open func(t testing.TB) device.Device) {
	for _, c := range []struct {
		name string
		rows int
		s    sampling.Settings
		hint device.Sampling
	}{
		{"greedy", 1, sampling.Settings{}, device.Sampling{Greedy: true, Unfiltered: true}},
		{"sampled", 3, sampling.Settings{Temperature: 1}, device.Sampling{Unfiltered: true}},
		{"filtered", 2, sampling.Settings{Temperature: 1, TopK: 300}, device.Sampling{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := opened(t, open)
			r := newRingTest(d, c.rows, c.s, c.hint)
			want := r.expected(c.s)
			replay, err := d.Record(r.step)
			if err != nil {
				t.Fatal(err)
			}
			for _, first := range []int{1, ringSteps + 1, math.MaxInt32 - 5} {
				r.begin(first)
				for _, front := range []int{0, 1, 17, device.RingEntries - 1} {
					r.reset()
					read := 0
					for n := range ringSteps + front {
						if n < ringSteps {
							replay()
						}
						if n < front {
							continue
						}
						got, err := r.ring.Read(first+read, c.rows)
						if err != nil || !slices.Equal(got, want[read]) {
							t.Fatalf("entry %d, %d in front: %v, want %v; error %v", read, front, got, want[read], err)
						}
						read++
					}
					first += ringSteps
				}
			}
			r.free()
		})
	}
}

// ringSteps is more steps than a ring has entries.
const ringSteps = 2*device.RingEntries + 5

// A ringTest chooses by rows of a table, each by the token chosen before.
type ringTest struct {
	d                                        device.Device
	rows                                     int
	table, x, ids, pos, out, settings, seeds tensor.Tensor
	hint                                     device.Sampling
	ring                                     device.TokenRing
	values                                   values
}

const ringColumns = 600

func newRingTest(d device.Device, rows int, s sampling.Settings, hint device.Sampling) *ringTest {
	r := &ringTest{d: d, rows: rows, hint: hint, values: noise(40)}
	r.table, r.x = d.Alloc(tensor.F32, ringColumns, ringColumns), d.Alloc(tensor.F32, rows, ringColumns)
	d.Upload(r.table, encode(tensor.F32, ringColumns*ringColumns, r.logit))
	r.ids, r.pos, r.out = d.Alloc(tensor.I32, 1, rows), d.Alloc(tensor.I32, 1, rows), d.Alloc(tensor.I32, 2, rows)
	r.settings, r.seeds = d.Alloc(tensor.F32, rows, sampling.Columns), d.Alloc(tensor.I32, rows, 2)
	row := s.Row()
	d.Upload(r.settings, encode(tensor.F32, rows*sampling.Columns, func(i int) float32 { return row[i%sampling.Columns] }))
	r.ring = d.NewTokenRing(rows + 2)
	return r
}

// logit is noise, but for one number that is none, behind some tokens.
func (r *ringTest) logit(i int) float32 {
	if row, col := i/ringColumns, i%ringColumns; row%50 == 49 && col == row {
		return nan
	}
	return r.values(i)
}

func (r *ringTest) begin(n int) { r.ring.Begin(n) }

func (r *ringTest) reset() {
	ids, pos := make([]int32, r.rows), make([]int32, r.rows)
	for i := range r.rows {
		ids[i], pos[i] = int32(7*i), int32(100*i)
	}
	r.d.Upload(r.ids, encodeInts(ids))
	r.d.Upload(r.pos, encodeInts(pos))
}

func (r *ringTest) step() {
	s := r.hint
	s.Settings, s.Seeds, s.Next, s.Advance, s.Ring = r.settings, r.seeds, r.ids, true, r.ring
	r.d.Embed(r.x, r.table, r.ids, 1)
	r.d.Sample(r.out, r.x, r.pos, s)
}

// expected returns the entries, by the definition of sampling.
func (r *ringTest) expected(s sampling.Settings) (all [][]int32) {
	at, logits := make([]int32, r.rows), make([]float32, ringColumns)
	for i := range at {
		at[i] = int32(7 * i)
	}
	for n := range ringSteps {
		entry := make([]int32, r.rows)
		for i := range at {
			for c := range logits {
				logits[c] = r.logit(int(at[i])*ringColumns + c)
			}
			token, bad := s.Choose(logits, nil, 0, int32(100*i+n))
			if at[i], entry[i] = token, token; bad >= 0 {
				entry[i] = -1 - bad
			}
		}
		all = append(all, entry)
	}
	return all
}

func (r *ringTest) free() {
	for _, x := range []tensor.Tensor{r.table, r.x, r.ids, r.pos, r.out, r.settings, r.seeds} {
		r.d.Free(x)
	}
	r.ring.Free()
}
