package cuda

import (
	"exl2/internal/device"
	"exl2/internal/sampling"
	"exl2/internal/tensor"
)

// Sample chooses a column of each row of x.
func (d *Device) Sample(out, x, pos tensor.Tensor, s device.Sampling) {
	want(out.Rows == 2 && out.Cols == x.Rows && out.Dense() && pos.Cols == x.Rows && s.Settings.Rows == x.Rows && s.Settings.Cols == sampling.Columns && s.Settings.Dense() &&
		s.Seeds.Rows == x.Rows && s.Seeds.Cols == 2 && (s.Seen.Nil() || s.Seen.Rows == x.Rows && s.Seen.Cols == x.Cols && s.Seen.Dense()) && (s.Next.Nil() || s.Next.Cols == x.Rows),
		"Sample", out, x, pos, s.Settings, s.Seeds, s.Seen, s.Next)
	if x.Rows == 0 {
		return
	}
	state := d.scratch(scratchState, tensor.U8, x.Rows, sample_row_state_bytes)
	list := d.scratch(scratchList, tensor.F32, x.Rows, x.Cols)
	l := launch{blocks: dim{x: pieces(x.Cols, sample_row_columns), y: x.Rows}, threads: dim{x: sample_row_threads}}
	cols, ldx := int32(x.Cols), int64(x.Stride)
	var advanced, slots, numbers tensor.Tensor
	if s.Advance {
		advanced = pos
	}
	if s.Ring != nil {
		ring := s.Ring.(*tokenRing)
		slots, numbers = ring.slots, ring.numbers
	}
	d.sample_most(l, out, s.Next, advanced, slots, numbers, int32(numbers.Cols), x, s.Settings, s.Seen, state, cols, ldx)
	if s.Greedy {
		return
	}
	if !s.Unfiltered {
		d.sample_bins(l, x, s.Settings, s.Seen, state, cols, ldx)
		d.sample_select(l, x, s.Settings, s.Seen, state, list, cols, ldx)
	}
	d.sample_draw(l, out, s.Next, advanced, slots, numbers, int32(numbers.Cols), x, pos, s.Settings, s.Seeds, s.Seen, state, cols, ldx)
}
