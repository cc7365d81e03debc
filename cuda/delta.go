package cuda

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

type deltaRule func(d *Device, l launch, y, columns, gates, skips, state, left, q, k, v, pos, seq tensor.Tensor,
	sequences, keyHeads, valueHeads, keyDim, valueDim, kernel, span int32, ldy, ldc, ldq, ldk, ldv int64)

// deltaRules are by the dimensions of keys that a head has at most.
var deltaRules = []struct {
	rule, plain deltaRule
	dims        int
}{{(*Device).delta_rule_64, (*Device).delta_plain_64, 64}, {(*Device).delta_rule_128, (*Device).delta_plain_128, 128}, {(*Device).delta_rule_256, (*Device).delta_plain_256, 256}}

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
	left := m.Inputs
	if g.Kernel == 1 {
		left = tensor.Tensor{}
	}
	gates := d.scratch(scratchGates, tensor.F32, q.Rows, 2*g.ValueHeads)
	d.convolve(columns, gates, q, k, v, a, b, left, g, sequences, batch)
	if c, ok := d.chunksOf(g, columns, batch.Span); ok {
		d.deltaChunks(c, y, columns, gates, left, q, k, v, g, m, batch)
		return
	}
	l := launch{blocks: dim{x: pieces(g.ValueDim, delta_columns_of_block), y: g.ValueHeads, z: q.Rows / batch.Span}, threads: dim{x: delta_threads}}
	for _, r := range deltaRules {
		if g.KeyDim > r.dims {
			continue
		}
		rule := r.rule
		if g.Plain {
			rule = r.plain
		}
		rule(d, l, y, columns, gates, g.Skip, m.State, left, q, k, v, batch.Pos, batch.Seq, int32(sequences), int32(g.KeyHeads), int32(g.ValueHeads), int32(g.KeyDim), int32(g.ValueDim),
			int32(g.Kernel), int32(batch.Span), int64(y.Stride), int64(columns.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride))
		return
	}
}

// convolve makes columns, and gates of a and b.
func (d *Device) convolve(columns, gates, q, k, v, a, b, left tensor.Tensor, g device.GatedDelta, sequences int, batch device.Batch) {
	more, rows, scale := pieces(q.Rows*g.ValueHeads, delta_convolve_threads), q.Rows, lengths(g)
	l := launch{threads: dim{x: delta_convolve_threads}}
	if keys, values, ok := fastHeads(g); ok && atSixteenBytes(columns) && atSixteenBytes(q) && atSixteenBytes(k) && atSixteenBytes(v) {
		first := pieces(rows/batch.Span*pieces(batch.Span, delta_convolve_rows_of_warp)*(2*keys+values)*32, delta_convolve_threads)
		l.blocks.x = first + more
		d.delta_convolve_128(l, columns, q, k, v, left, g.Conv, g.ConvBias, batch.Pos, batch.Seq, d.fault, int32(rows), int32(sequences), int32(keys), int32(values), int32(batch.Span),
			gates, a, b, g.Decay, g.Bias, g.Limit(), int32(g.ValueHeads), int32(first), int64(a.Stride), int64(b.Stride), int64(columns.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride), scale)
		return
	}
	first := pieces(rows*(2*g.KeyHeads+g.ValueHeads)*32, delta_convolve_threads)
	l.blocks.x = first + more
	d.delta_convolve(l, columns, q, k, v, left, g.Conv, g.ConvBias, batch.Pos, batch.Seq, d.fault, int32(rows), int32(sequences), int32(g.KeyHeads), int32(g.ValueHeads), int32(g.KeyDim), int32(g.ValueDim),
		int32(g.Kernel), int32(batch.Span), gates, a, b, g.Decay, g.Bias, g.Limit(), int32(first), int64(a.Stride), int64(b.Stride), int64(columns.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride), scale)
}

// fastHeads returns how many heads of 128 columns keys and values are, where columns are convolved by so many.
func fastHeads(g device.GatedDelta) (keys, values int, ok bool) {
	const dim = delta_convolve_fast_dim
	if g.Kernel != delta_convolve_fast_kernel || g.Keys()%dim != 0 || g.Values()%dim != 0 {
		return 0, 0, false
	}
	return g.Keys() / dim, g.Values() / dim, g.Plain || g.KeyDim == dim && g.ValueDim == dim
}

// lengths is what queries of length one are multiplied by, or 0: heads stay as they are.
func lengths(g device.GatedDelta) float32 {
	if g.Plain {
		return 0
	}
	return float32(1 / math.Sqrt(float64(g.KeyDim)))
}

func checkDelta(op string, columns, q, k, v, a, b tensor.Tensor, g device.GatedDelta, batch device.Batch) {
	want(q.Cols == g.Keys() && k.Rows == q.Rows && k.Cols == q.Cols && v.Rows == q.Rows && v.Cols == g.Values(), op, q, k, v)
	want(a.Rows == q.Rows && a.Cols == g.ValueHeads && g.ValueHeads%g.KeyHeads == 0, op, q, a)
	want(g.Plain && b.Nil() && g.Skip.Cols == a.Cols || !g.Plain && b.Rows == q.Rows && b.Cols == a.Cols, op, a, b, g.Skip)
	want(g.ConvBias.Nil() || g.ConvBias.Cols == g.Columns(), op, g.ConvBias)
	want(columns.Rows == q.Rows && columns.Cols == g.Columns() && g.Conv.Rows*g.Conv.Cols == g.Columns()*g.Kernel && g.Decay.Cols == a.Cols && g.Bias.Cols == a.Cols, op, columns, g.Conv, g.Decay, g.Bias)
	want(q.Rows == batch.Pos.Cols && q.Rows%batch.Span == 0, op, q, batch.Pos)
}

// HeadNormGated is y = norm(x)·silu(gate) by heads.
func (d *Device) HeadNormGated(y, x, gate, w tensor.Tensor, n device.Norm) {
	const op = "HeadNormGated"
	want(x.Rows == y.Rows && x.Cols == y.Cols && gate.Rows == y.Rows && gate.Cols == y.Cols && y.Cols%w.Cols == 0 && n.Kind == device.RMS, op, y, x, gate, w)
	if w.Cols > gated_norm_most_dim {
		d.failWith("%s: heads of %d dimensions, want up to %d: %w; --devices cpu has it", op, w.Cols, gated_norm_most_dim, device.ErrUnsupported)
		return
	}
	heads := y.Cols / w.Cols
	l := launch{blocks: dim{x: pieces(y.Rows*heads*32, gated_norm_threads)}, threads: dim{x: gated_norm_threads}}
	if w.Cols == gated_norm_fast_dim && foursAt(y, x, gate, w) {
		d.gated_norm_heads_128(l, y, x, gate, w, int32(y.Rows), int32(heads), int64(y.Stride), int64(x.Stride), int64(gate.Stride), n.Eps, n.Offset)
		return
	}
	d.gated_norm_heads(l, y, x, gate, w, int32(y.Rows), int32(heads), int32(w.Cols), int64(y.Stride), int64(x.Stride), int64(gate.Stride), n.Eps, n.Offset)
}

// GatedNorm is y = norm(x·silu(gate))·(w + offset) by groups of columns.
func (d *Device) GatedNorm(y, x, gate, w tensor.Tensor, group int, n device.Norm) {
	const op = "GatedNorm"
	want(x.Rows == y.Rows && x.Cols == y.Cols && gate.Rows == y.Rows && gate.Cols == y.Cols && w.Cols == y.Cols && y.Cols%group == 0 && n.Kind == device.RMS, op, y, x, gate, w)
	switch {
	case y.Rows == 0:
	case y.Rows >= manyGatedRows && group <= 4*gated_norm_most_fours*gated_norm_wide && group%4 == 0 && foursAt(y, x, gate, w):
		l := launch{blocks: dim{x: y.Cols / group, y: y.Rows}, threads: dim{x: pieces(group, 4*gated_norm_most_fours*32) * 32}}
		d.gated_norm_fours(l, y, x, gate, w, int32(group), int64(y.Stride), int64(x.Stride), int64(gate.Stride), n.Eps, n.Offset)
	default:
		d.gatedNorm(y, x, gate, w, tensor.Tensor{}, group, n)
	}
}

// manyGatedRows is from how many rows on blocks of few warps keep the GPU busy.
const manyGatedRows = 32

// foursAt reports whether rows of all begin where four numbers are read at once.
func foursAt(ts ...tensor.Tensor) bool {
	for _, t := range ts {
		if !rowsAt(t, 4*t.Type.Size()) {
			return false
		}
	}
	return true
}

// gatedNorm is GatedNorm of which columns go to places, if there are any.
func (d *Device) gatedNorm(y, x, gate, w, places tensor.Tensor, group int, n device.Norm) {
	l := launch{blocks: dim{x: y.Cols / group, y: y.Rows}, threads: dim{x: min(gated_norm_wide, pieces(group, 32)*32)}}
	d.gated_norm(l, y, x, gate, w, places, int32(group), int64(y.Stride), int64(x.Stride), int64(gate.Stride), n.Eps, n.Offset)
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
