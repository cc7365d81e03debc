package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// GatedDeltaBackBytes is what states and parts of sums take that are kept.
func (d *Device) GatedDeltaBackBytes(g device.GatedDelta, runs, span int) int {
	states, parts := deltaKeptOf(g, span)
	return deltaBacksAtOnce(g, runs, span) * (states + parts) * tensor.F32.Size()
}

// deltaKeptOf counts the numbers of the states that are kept of a run, and those of parts of its sums.
func deltaKeptOf(g device.GatedDelta, span int) (states, parts int) {
	v := deltaBackOf(g)
	blocks := g.ValueHeads * pieces(g.ValueDim, v.columns)
	return blocks * (pieces(span, delta_back_mark_rows) + delta_back_mark_rows) * v.columns * v.dims, blocks * span * (2*g.KeyDim + 2)
}

// deltaBacksAtOnce is of how many runs states are kept at a time.
func deltaBacksAtOnce(g device.GatedDelta, runs, span int) int {
	states, parts := deltaKeptOf(g, span)
	return min(runs, max(1, deltaKept/((states+parts)*tensor.F32.Size())))
}

// deltaBackOf returns the kernel for a head's dimensions.
func deltaBackOf(g device.GatedDelta) deltaBackVariant {
	for _, v := range deltaBacks {
		if g.KeyDim <= v.dims {
			return v
		}
	}
	return deltaBacks[len(deltaBacks)-1]
}

type deltaBack func(d *Device, l launch, dcolumns, parts, kept, dy, columns, a, b, decay, bias, skips tensor.Tensor,
	least float32, keyHeads, valueHeads, keyDim, valueDim, kernel, span, run int32, ldc, lddy, lda, ldb int64)

// A deltaBackVariant is a kernel, the dimensions of keys that a head has at most, the columns of a block, and its shared memory.
type deltaBackVariant struct {
	back                  deltaBack
	dims, columns, shared int
}

var deltaBacks = []deltaBackVariant{
	{(*Device).delta_back_64, 64, delta_back_columns_of_64, delta_back_shared_of_64}, {(*Device).delta_back_128, 128, delta_back_columns_of_128, delta_back_shared_of_128},
	{(*Device).delta_back_256, 256, delta_back_columns_of_256, delta_back_shared_of_256},
}

// deltaKept is about how many bytes of states of the way forward, and of parts of sums, are kept at a time, if those of one run do not take more.
const deltaKept = 512 << 20

// GatedDeltaBack goes forward once more, and back, as many runs at a time as states may be kept of.
func (d *Device) GatedDeltaBack(dq, dk, dv, da, db, dcolumns, dy, columns, q, k, v, a, b tensor.Tensor, g device.GatedDelta, batch device.Batch) {
	const op = "GatedDeltaBack"
	checkDelta(op, columns, q, k, v, a, b, g, batch)
	for _, x := range [][2]tensor.Tensor{{dq, q}, {dk, k}, {dv, v}, {dy, v}, {da, a}, {db, b}, {dcolumns, columns}} {
		want(x[0].Rows == x[1].Rows && x[0].Cols == x[1].Cols, op, x[0], x[1])
	}
	want(dcolumns.Stride == columns.Stride, op, dcolumns, columns)
	if !d.canDelta(op, g) || q.Rows == 0 {
		return
	}
	d.deltaHeads(da, db, dcolumns, dy, columns, a, b, g, batch.Span)
	heads := 2*g.KeyHeads + g.ValueHeads
	l := launch{blocks: dim{x: pieces(q.Rows*heads*32, delta_back_threads)}, threads: dim{x: delta_back_threads}}
	d.delta_back_columns(l, dcolumns, q, k, v, g.Conv, g.ConvBias, int32(q.Rows), int32(g.KeyHeads), int32(g.ValueHeads), int32(g.KeyDim), int32(g.ValueDim), int32(g.Kernel), int32(batch.Span),
		int64(dcolumns.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride), lengths(g))
	l.blocks = dim{x: pieces(q.Rows*g.Columns(), delta_back_threads)}
	d.delta_back_inputs(l, dq, dk, dv, dcolumns, g.Conv, int32(q.Rows), int32(g.Keys()), int32(g.Columns()), int32(g.Kernel), int32(batch.Span),
		int64(dq.Stride), int64(dk.Stride), int64(dv.Stride), int64(dcolumns.Stride))
}

// deltaHeads makes the gradients of columns of those of heads, and adds those of a and b, as many runs at a time as there is room for.
func (d *Device) deltaHeads(da, db, dcolumns, dy, columns, a, b tensor.Tensor, g device.GatedDelta, span int) {
	v, runs := deltaBackOf(g), columns.Rows/span
	most, chunks := deltaBacksAtOnce(g, runs, span), pieces(g.ValueDim, v.columns)
	states, parts := deltaKeptOf(g, span)
	kept := d.scratch(scratchDelta, tensor.F32, 1, most*(states+parts))
	sums := kept.Columns(most*states, kept.Cols)
	for run := 0; run < runs; run += most {
		n := min(most, runs-run)
		l := launch{blocks: dim{x: chunks, y: g.ValueHeads, z: n}, threads: dim{x: v.columns * delta_back_sharing}, shared: v.shared}
		v.back(d, l, dcolumns, sums, kept, dy, columns, a, b, g.Decay, g.Bias, g.Skip, g.Limit(), int32(g.KeyHeads), int32(g.ValueHeads), int32(g.KeyDim), int32(g.ValueDim), int32(g.Kernel), int32(span), int32(run),
			int64(columns.Stride), int64(dy.Stride), int64(a.Stride), int64(b.Stride))
		l = launch{blocks: dim{x: pieces(n*span*2*(g.Keys()+g.ValueHeads), delta_back_threads)}, threads: dim{x: delta_back_threads}}
		d.delta_back_sums(l, dcolumns, da, db, sums, int32(n*span), int32(g.KeyHeads), int32(g.ValueHeads), int32(g.KeyDim), int32(chunks), int32(span), int32(run),
			int64(dcolumns.Stride), int64(da.Stride), int64(db.Stride))
	}
}
