package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// turns is what kernels/gemm_tiles.cu needs for device.Turn.
type turns struct {
	turns, places tensor.Tensor // what turns.cu computes
	dim           int           // of heads
}

// turnsHeads reports whether gemm_tiles.cu turns and stores what p computes: heads of which
// all dimensions turn, in halves, and matrices that are decoded at once.
func (d *Device) turnsHeads(p *packed) bool {
	t := &p.turn
	if p.n != 3 || !halvesTurn(t) || p.all().bytes() > wholeBytes {
		return false
	}
	s, q, k, v := t.Cache.Shape(), p.list[0].out, p.list[1].out, p.list[2].out
	want(t.Freqs.Cols == t.HeadDim/2 && q%t.HeadDim == 0 && k%t.HeadDim == 0 && v == k && s.K == k && s.V == v && t.Batch.Pos.Cols == p.x.Rows && t.Batch.Seq.Cols == p.x.Rows,
		"Products", p.y[0], p.y[1], t.Freqs, t.Batch.Pos)
	return p.y[0].Type == tensor.F16
}

// halvesTurn reports whether gemm_tiles.cu turns heads so: all dimensions, in halves.
func halvesTurn(t *device.Turning) bool {
	return (t.HeadDim == 64 || t.HeadDim == 128) && t.Rope.Dims == t.HeadDim && !t.Rope.Interleaved
}

// turned is what turns are computed of, of rows of a pass.
type turned struct {
	batch       device.Batch
	turns       turns
	which       uint64 // frequencies
	rope        device.Rope
	pages, rows int // of a cache, and of a page
}

// turns computes how the rows of t turn, and where they go, or finds that of a layer before.
func (d *Device) turns(t *device.Turning) turns {
	rows, pairs, shape, b := t.Batch.Pos.Cols, t.Rope.Dims/2, t.Cache.Shape(), t.Batch
	out := turns{d.scratch(scratchTurns, tensor.F32, rows, t.Rope.Dims), d.scratch(scratchPlaces, tensor.I32, 1, rows), t.HeadDim}
	now := turned{b, out, t.Which, t.Rope, shape.Pages, shape.PageRows}
	replayed := d.recording || d.tape != nil // later, when others have been computed
	if b.Pass > 0 && b.Span > 1 && t.Which != 0 && now == d.turned && !replayed {
		return out
	}
	if d.turned = now; replayed {
		d.turned = turned{}
	}
	_, scale := ropeLaunch(rows, 1, t.Rope)
	d.turns_f32(launch{blocks: dim{x: pieces(rows*pairs, turns_threads)}, threads: dim{x: turns_threads}}, out.turns, out.places, t.Freqs, b.Pos, b.Seq, b.Table, d.fault,
		int32(rows), int32(pairs), int32(b.Table.Rows), int32(b.Table.Cols), int32(shape.Pages), int32(shape.PageRows), scale)
	return out
}
