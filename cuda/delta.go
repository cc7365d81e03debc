package cuda

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

type deltaRule func(d *Device, l launch, y, columns, gates, state, left, q, k, v, pos, seq tensor.Tensor,
	sequences, keyHeads, valueHeads, keyDim, valueDim, kernel, span int32, ldy, ldc, ldq, ldk, ldv int64)

// deltaRules are by the dimensions of keys that a head has at most.
var deltaRules = []struct {
	rule deltaRule
	dims int
}{{(*Device).delta_rule_64, 64}, {(*Device).delta_rule_128, 128}, {(*Device).delta_rule_256, 256}}

// GatedDelta convolves, and then goes through the rows of each run.
func (d *Device) GatedDelta(y, columns, q, k, v, a, b tensor.Tensor, g device.GatedDelta, m device.DeltaState, batch device.Batch) {
	const op = "GatedDelta"
	checkDelta(op, columns, q, k, v, a, b, g, batch)
	sequences := m.State.Rows
	want(y.Rows == q.Rows && y.Cols == g.Values() && m.State.Cols == g.StateSize() && batch.Seq.Cols == q.Rows, op, y, m.State)
	want(g.Kernel == 1 || m.Inputs.Cols == (g.Kernel-1)*g.Columns() && m.Inputs.Rows == sequences, op, m.Inputs)
	if !d.canDelta(op, g) || q.Rows == 0 {
		return
	}
	heads, left, scale := 2*g.KeyHeads+g.ValueHeads, m.Inputs, float32(1/math.Sqrt(float64(g.KeyDim)))
	if g.Kernel == 1 {
		left = tensor.Tensor{}
	}
	gates, more := d.scratch(scratchGates, tensor.F32, q.Rows, 2*g.ValueHeads), pieces(q.Rows*g.ValueHeads, delta_threads)
	l := launch{threads: dim{x: delta_threads}}
	if fast := g.Kernel == delta_fast_kernel && g.KeyDim == delta_fast_dim && g.ValueDim == delta_fast_dim && atSixteenBytes(columns); fast && atSixteenBytes(q) && atSixteenBytes(k) && atSixteenBytes(v) {
		first := pieces(q.Rows/batch.Span*pieces(batch.Span, delta_rows_of_warp)*heads*32, delta_threads)
		l.blocks.x = first + more
		d.delta_convolve_128(l, columns, q, k, v, left, g.Conv, batch.Pos, batch.Seq, d.fault, int32(q.Rows), int32(sequences), int32(g.KeyHeads), int32(g.ValueHeads), int32(batch.Span),
			gates, a, b, g.Decay, g.Bias, int32(first), int64(a.Stride), int64(b.Stride), int64(columns.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride), scale)
	} else {
		first := pieces(q.Rows*heads*32, delta_threads)
		l.blocks.x = first + more
		d.delta_convolve(l, columns, q, k, v, left, g.Conv, batch.Pos, batch.Seq, d.fault, int32(q.Rows), int32(sequences), int32(g.KeyHeads), int32(g.ValueHeads), int32(g.KeyDim), int32(g.ValueDim),
			int32(g.Kernel), int32(batch.Span), gates, a, b, g.Decay, g.Bias, int32(first), int64(a.Stride), int64(b.Stride), int64(columns.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride), scale)
	}
	l.blocks = dim{x: pieces(g.ValueDim, delta_columns_of_block), y: g.ValueHeads, z: q.Rows / batch.Span}
	for _, r := range deltaRules {
		if g.KeyDim <= r.dims {
			r.rule(d, l, y, columns, gates, m.State, left, q, k, v, batch.Pos, batch.Seq, int32(sequences), int32(g.KeyHeads), int32(g.ValueHeads), int32(g.KeyDim), int32(g.ValueDim),
				int32(g.Kernel), int32(batch.Span), int64(y.Stride), int64(columns.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride))
			return
		}
	}
}

func checkDelta(op string, columns, q, k, v, a, b tensor.Tensor, g device.GatedDelta, batch device.Batch) {
	want(q.Cols == g.Keys() && k.Rows == q.Rows && k.Cols == q.Cols && v.Rows == q.Rows && v.Cols == g.Values(), op, q, k, v)
	want(a.Rows == q.Rows && a.Cols == g.ValueHeads && b.Rows == q.Rows && b.Cols == a.Cols && g.ValueHeads%g.KeyHeads == 0, op, q, a, b)
	want(columns.Rows == q.Rows && columns.Cols == g.Columns() && g.Conv.Rows*g.Conv.Cols == g.Columns()*g.Kernel && g.Decay.Cols == a.Cols && g.Bias.Cols == a.Cols, op, columns, g.Conv, g.Decay, g.Bias)
	want(q.Rows == batch.Pos.Cols && q.Rows%batch.Span == 0, op, q, batch.Pos)
}

// HeadNormGated is y = norm(x)·silu(gate) by heads.
func (d *Device) HeadNormGated(y, x, gate, w tensor.Tensor, n device.Norm) {
	const op = "HeadNormGated"
	want(x.Rows == y.Rows && x.Cols == y.Cols && gate.Rows == y.Rows && gate.Cols == y.Cols && y.Cols%w.Cols == 0 && n.Kind == device.RMS, op, y, x, gate, w)
	if w.Cols > delta_most_dim {
		d.failWith("%s: heads of %d dimensions, want up to %d: %w; --devices cpu has it", op, w.Cols, delta_most_dim, device.ErrUnsupported)
		return
	}
	heads := y.Cols / w.Cols
	l := launch{blocks: dim{x: pieces(y.Rows*heads*32, delta_threads)}, threads: dim{x: delta_threads}}
	d.delta_norm_gate(l, y, x, gate, w, int32(y.Rows), int32(heads), int32(w.Cols), int64(y.Stride), int64(x.Stride), int64(gate.Stride), n.Eps, n.Offset)
}

// canDelta refuses what there are no kernels for.
func (d *Device) canDelta(op string, g device.GatedDelta) bool {
	if g.KeyDim > delta_most_dim || g.ValueDim > delta_most_dim || g.Kernel > delta_most_kernel {
		d.failWith("%s: heads of %d and %d dimensions, a convolution of %d positions, want up to %d and %d: %w; --devices cpu has it",
			op, g.KeyDim, g.ValueDim, g.Kernel, delta_most_dim, delta_most_kernel, device.ErrUnsupported)
		return false
	}
	return true
}
