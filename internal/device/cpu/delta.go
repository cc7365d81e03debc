package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// lengthEps is added to the squares of a head of queries or keys (models/qwen3_next, l2norm).
const lengthEps = 1e-6

// GatedDelta convolves, and then goes through the rows of each run, a goroutine a head.
func (d *Device) GatedDelta(y, columns, q, k, v, a, b tensor.Tensor, g device.GatedDelta, m device.DeltaState, batch device.Batch) {
	const op = "GatedDelta"
	j := newDelta(op, columns, q, k, v, a, b, g, batch)
	want(y.Rows == q.Rows && y.Cols == g.Values() && m.State.Cols == g.StateSize() && m.Inputs.Cols == (g.Kernel-1)*g.Columns(), op, y, m.State, m.Inputs)
	out, state := rowsOf(op, y), floats(op, m.State)
	if g.Kernel > 1 {
		j.inputs, j.kept = floats(op, m.Inputs), m.Inputs.Cols
	}
	j.convolve(d)
	parallel.For(j.runs()*g.ValueHeads, func(i int) {
		run, head := i/g.ValueHeads, i%g.ValueHeads
		size := g.ValueDim * g.KeyDim
		s := state[int(j.seq[run*j.span])*g.StateSize()+head*size:][:size]
		if j.pos[run*j.span] == 0 {
			clear(s)
		}
		buf, release := d.borrowed(g.ValueDim)
		defer release()
		for r := run * j.span; r < (run+1)*j.span; r++ {
			j.step(s, buf, r, head)
			o := out.row(r)[head*g.ValueDim:][:g.ValueDim]
			clear(o)
			simd.Gemv(o, j.query(r, head), s, g.KeyDim)
			if g.Plain {
				addScaled(o, j.value(r, head), j.skip[head])
			}
		}
	})
	parallel.For(j.runs(), j.keep)
}

// delta is what goroutines share of a GatedDelta or its gradient.
type delta struct {
	device.GatedDelta
	q, k, v, a, b     strided
	decay, bias, conv []float32
	skip, convBias    []float32 // of Plain; or nothing
	pos, seq          []int32
	span              int

	inputs  []float32 // of sequences
	kept    int       // elements of one
	columns strided   // convolved
}

func newDelta(op string, columns, q, k, v, a, b tensor.Tensor, g device.GatedDelta, batch device.Batch) *delta {
	want(q.Cols == g.Keys() && k.Rows == q.Rows && k.Cols == q.Cols && v.Rows == q.Rows && v.Cols == g.Values(), op, q, k, v)
	want(a.Rows == q.Rows && a.Cols == g.ValueHeads && g.ValueHeads%g.KeyHeads == 0, op, q, a)
	want(g.Plain && b.Nil() && g.Skip.Cols == a.Cols || !g.Plain && b.Rows == q.Rows && b.Cols == a.Cols, op, a, b, g.Skip)
	want(g.Conv.Rows*g.Conv.Cols == g.Columns()*g.Kernel && g.Decay.Cols == a.Cols && g.Bias.Cols == a.Cols, op, g.Conv, g.Decay, g.Bias)
	want(g.ConvBias.Nil() || g.ConvBias.Cols == g.Columns(), op, g.ConvBias)
	want(q.Rows == batch.Pos.Cols && q.Rows%batch.Span == 0, op, q, batch.Pos)
	want(columns.Rows == q.Rows && columns.Cols == g.Columns(), op, columns, q)
	j := &delta{
		GatedDelta: g, columns: rowsOf(op, columns), q: rowsOf(op, q), k: rowsOf(op, k), v: rowsOf(op, v), a: rowsOf(op, a),
		decay: floats(op, g.Decay), bias: floats(op, g.Bias), conv: floats(op, g.Conv), pos: ints(op, batch.Pos), seq: ints(op, batch.Seq), span: batch.Span,
	}
	if g.Plain {
		j.skip = floats(op, g.Skip)
	} else {
		j.b = rowsOf(op, b)
	}
	if !g.ConvBias.Nil() {
		j.convBias = floats(op, g.ConvBias)
	}
	return j
}

func (j *delta) runs() int { return len(j.pos) / j.span }

// row copies the inputs of a row.
func (j *delta) row(to []float32, r int) {
	n := j.Keys()
	copy(to[:n], j.q.row(r))
	copy(to[n:2*n], j.k.row(r))
	copy(to[2*n:], j.v.row(r))
}

// before copies the inputs n positions in front of a run's first: zeros in front of a sequence.
func (j *delta) before(to []float32, run, n int) {
	first := run * j.span
	if j.pos[first] == 0 || j.inputs == nil {
		clear(to)
		return
	}
	copy(to, j.inputs[int(j.seq[first])*j.kept+(j.Kernel-1-n)*j.Columns():][:j.Columns()])
}

// convolve makes the columns of all rows; heads of queries and keys have their length, but if Plain.
func (j *delta) convolve(d *Device) {
	parallel.For(len(j.pos), func(r int) {
		buf, release := d.borrowed(j.Columns())
		defer release()
		y := j.columns.row(r)
		j.sum(y, buf, r)
		simd.SiLUMul(y, y, ones(buf))
		if j.Plain {
			return
		}
		for h := 0; h < 2*j.Keys(); h += j.KeyDim {
			unit(y[h : h+j.KeyDim])
		}
		scaleRow(y[:j.Keys()], j.scale())
	})
}

// ones fills buf with them.
func ones(buf []float32) []float32 {
	for i := range buf {
		buf[i] = 1
	}
	return buf
}

// scale multiplies queries.
func (j *delta) scale() float32 { return float32(1 / math.Sqrt(float64(j.KeyDim))) }

// sum convolves a row.
func (j *delta) sum(y, buf []float32, r int) {
	clear(y)
	copy(y, j.convBias)
	run := r / j.span
	for i := range j.Kernel {
		at := r - j.Kernel + 1 + i
		if first := run * j.span; at < first {
			j.before(buf, run, first-at)
		} else {
			j.row(buf, at)
		}
		for c, v := range buf {
			y[c] += j.conv[c*j.Kernel+i] * v
		}
	}
}

// unit divides x by its length, and returns one over that.
func unit(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	inv := 1 / math.Sqrt(sum+lengthEps)
	scaleRow(x, float32(inv))
	return inv
}

// query, key and value return what a head of values has of a row.
func (j *delta) query(r, head int) []float32 { return j.part(r, j.keyHead(head)*j.KeyDim, j.KeyDim) }

func (j *delta) key(r, head int) []float32 {
	return j.part(r, j.Keys()+j.keyHead(head)*j.KeyDim, j.KeyDim)
}

func (j *delta) value(r, head int) []float32 {
	return j.part(r, 2*j.Keys()+head*j.ValueDim, j.ValueDim)
}

func (j *delta) keyHead(head int) int { return head / (j.ValueHeads / j.KeyHeads) }

func (j *delta) part(r, at, n int) []float32 { return j.columns.row(r)[at:][:n] }

// gates returns g of a head at a row, and β, or Δ if Plain.
func (j *delta) gates(r, head int) (g, beta float32) {
	step, rate := softplus(float64(j.a.row(r)[head])+float64(j.bias[head])), math.Exp(float64(j.decay[head]))
	if j.Plain {
		step = max(step, float64(j.Least))
		return float32(math.Exp(-rate * step)), float32(step)
	}
	return float32(math.Exp(-rate * step)), j.Limit() * sigmoid(j.b.row(r)[head])
}

// softplus is ln(1 + exp(x)).
func softplus(x float64) float64 {
	if x > 30 {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// step moves the state of a head on by a row; u becomes what is added to it along the key.
func (j *delta) step(s, u []float32, r, head int) {
	g, beta := j.gates(r, head)
	k, v := j.key(r, head), j.value(r, head)
	scaleRow(s, g)
	clear(u)
	if !j.Plain {
		simd.Gemv(u, k, s, j.KeyDim)
	}
	for i := range u {
		u[i] = beta * (u[i] - v[i]) // less than nothing, as it is subtracted
	}
	simd.SubtractOuter(s, j.KeyDim, u, k)
}

// keep leaves a run's last inputs to what goes on behind it.
func (j *delta) keep(run int) {
	n := j.Columns()
	kept := j.inputs[int(j.seq[run*j.span])*j.kept:][:j.kept]
	first, end := run*j.span, (run+1)*j.span
	older := make([]float32, j.kept)
	for i := range j.Kernel - 1 {
		row := older[i*n : (i+1)*n]
		if at := end - j.Kernel + 1 + i; at < first {
			j.before(row, run, first-at)
		} else {
			j.row(row, at)
		}
	}
	copy(kept, older)
}

// HeadNormGated is y = norm(x)·silu(gate) by heads.
func (d *Device) HeadNormGated(y, x, gate, w tensor.Tensor, n device.Norm) {
	const op = "HeadNormGated"
	want(x.Rows == y.Rows && x.Cols == y.Cols && gate.Rows == y.Rows && gate.Cols == y.Cols && y.Cols%w.Cols == 0 && n.Kind == device.RMS, op, y, x, gate, w)
	out, in, gates, weight := rowsOf(op, y), rowsOf(op, x), rowsOf(op, gate), floats(op, w)
	parallel.Runs(y.Rows, rowTile, func(lo, hi int) {
		buf, release := d.borrowed(w.Cols)
		defer release()
		for r := lo; r < hi; r++ {
			for h := 0; h < y.Cols; h += w.Cols {
				normalize(buf, in.row(r)[h:h+w.Cols], weight, nil, n)
				simd.SiLUMul(out.row(r)[h:h+w.Cols], gates.row(r)[h:h+w.Cols], buf)
			}
		}
	})
}

// addScaled is y += f·x.
func addScaled(y, x []float32, f float32) {
	for i, v := range x {
		y[i] += f * v
	}
}

// GatedNorm is y = norm(x·silu(gate))·(w + offset) by groups of columns.
func (d *Device) GatedNorm(y, x, gate, w tensor.Tensor, group int, n device.Norm) {
	const op = "GatedNorm"
	want(x.Rows == y.Rows && x.Cols == y.Cols && gate.Rows == y.Rows && gate.Cols == y.Cols && w.Cols == y.Cols && y.Cols%group == 0 && n.Kind == device.RMS, op, y, x, gate, w)
	out, in, gates, weight := rowsOf(op, y), rowsOf(op, x), rowsOf(op, gate), floats(op, w)
	parallel.Runs(y.Rows, rowTile, func(lo, hi int) {
		buf, release := d.borrowed(group)
		defer release()
		for r := lo; r < hi; r++ {
			for c := 0; c < y.Cols; c += group {
				simd.SiLUMul(buf, gates.row(r)[c:c+group], in.row(r)[c:c+group])
				normalize(out.row(r)[c:c+group], buf, weight[c:c+group], nil, n)
			}
		}
	})
}
