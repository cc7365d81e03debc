package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// deltaTile is how many states of a head are kept at a time on the way back; of those in front
// of them, every deltaTile-th is.
const deltaTile = 32

// GatedDeltaBack goes forward once more, and back, a goroutine the heads that share a key.
func (d *Device) GatedDeltaBack(dq, dk, dv, da, db, dcolumns, dy, columns, q, k, v, a, b tensor.Tensor, g device.GatedDelta, batch device.Batch) {
	const op = "GatedDeltaBack"
	j := &deltaBack{delta: newDelta(op, columns, q, k, v, a, b, g, batch)}
	for _, x := range [][2]tensor.Tensor{{dq, q}, {dk, k}, {dv, v}, {dy, v}, {da, a}, {db, b}, {dcolumns, columns}} {
		want(x[0].Rows == x[1].Rows && x[0].Cols == x[1].Cols, op, x[0], x[1])
	}
	j.da, j.dy = rowsOf(op, da), rowsOf(op, dy)
	if !g.Plain {
		j.db = rowsOf(op, db)
	}
	d.Clear(dcolumns)
	j.dcolumns = rowsOf(op, dcolumns)
	group := g.ValueHeads / g.KeyHeads
	parallel.For(j.runs()*g.KeyHeads, func(i int) {
		run, first := i/g.KeyHeads, i%g.KeyHeads*group
		for head := first; head < first+group; head++ {
			j.head(d, run, head)
		}
	})
	parallel.For(len(j.pos), func(r int) { j.silus(d, r) })
	grads := []strided{rowsOf(op, dq), rowsOf(op, dk), rowsOf(op, dv)}
	parallel.For(len(j.pos), func(r int) { j.inputsBack(grads, r) })
}

// GatedDeltaBackBytes is nothing: what it takes goes back.
func (d *Device) GatedDeltaBackBytes(device.GatedDelta, int, int) int { return 0 }

// deltaBack is a delta on the way back.
type deltaBack struct {
	*delta
	da, db, dy strided
	dcolumns   strided // gradients of columns, and then of what silu has seen
}

// grad is the gradient of a part of a row's columns.
func (j *deltaBack) grad(r, at, n int) []float32 { return j.dcolumns.row(r)[at:][:n] }

// head adds the gradients of one head of a run.
func (j *deltaBack) head(d *Device, run, head int) {
	size := j.ValueDim * j.KeyDim
	tiles := (j.span + deltaTile - 1) / deltaTile
	buf, release := d.borrowed((tiles+deltaTile+1)*size + j.ValueDim*(deltaTile+3))
	defer release()
	marks, states := buf[:tiles*size], buf[tiles*size:(tiles+deltaTile+1)*size]
	rest := buf[(tiles+deltaTile+1)*size:]
	added, scratch := rest[:deltaTile*j.ValueDim], rest[deltaTile*j.ValueDim:]
	s := states[:size]
	clear(s)
	for t := range j.span {
		if t%deltaTile == 0 {
			copy(marks[t/deltaTile*size:], s)
		}
		j.step(s, scratch[:j.ValueDim], run*j.span+t, head)
	}
	ds, release := d.borrowed(size)
	defer release()
	clear(ds)
	for tile := tiles - 1; tile >= 0; tile-- {
		lo, hi := tile*deltaTile, min((tile+1)*deltaTile, j.span)
		copy(states[:size], marks[tile*size:])
		for t := lo; t < hi; t++ {
			next := states[(t-lo+1)*size : (t-lo+2)*size]
			copy(next, states[(t-lo)*size:])
			j.step(next, added[(t-lo)*j.ValueDim:][:j.ValueDim], run*j.span+t, head)
		}
		for t := hi - 1; t >= lo; t-- {
			j.stepBack(ds, states[(t-lo)*size:][:2*size], added[(t-lo)*j.ValueDim:][:j.ValueDim], scratch, run*j.span+t, head)
		}
	}
}

// stepBack is step on the way back: ds becomes the gradient of the state in front, states are
// those in front of and behind the row, u is what was taken from it along the key.
func (j *deltaBack) stepBack(ds, states, u, scratch []float32, r, head int) {
	n, size := j.ValueDim, j.ValueDim*j.KeyDim
	before, behind := states[:size], states[size:]
	dy, q, k, v := j.dy.row(r)[head*n:][:n], j.query(r, head), j.key(r, head), j.value(r, head)
	at := j.keyHead(head) * j.KeyDim
	dq, dk, dv := j.grad(r, at, j.KeyDim), j.grad(r, j.Keys()+at, j.KeyDim), j.grad(r, 2*j.Keys()+head*n, n)
	g, beta := j.gates(r, head)
	m, du, dm := scratch[:n], scratch[n:2*n], scratch[2*n:3*n]

	addOuter(ds, dy, q, m)
	simd.GemvT(dq, dy, behind, j.KeyDim)
	clear(du)
	simd.Gemv(du, k, ds, j.KeyDim) // of what was added
	for i := range m {
		m[i] = -u[i]
	}
	simd.GemvT(dk, m, ds, j.KeyDim)
	var dbeta, dg float64
	if j.Plain {
		for i, x := range du {
			dbeta += float64(x) * float64(v[i])
			dv[i] += x*beta + dy[i]*j.skip[head]
		}
		j.gatesBack(r, head, scaleBack(ds, before, g), dbeta)
		return
	}
	clear(m)
	simd.Gemv(m, k, before, j.KeyDim)
	for i, x := range du {
		dbeta += float64(x) * float64(v[i]-g*m[i])
		x *= beta
		dv[i] += x
		dm[i] = -g * x
		dg -= float64(x) * float64(m[i])
	}
	simd.GemvT(dk, dm, before, j.KeyDim)
	dg += scaleBack(ds, before, g)
	addOuter(ds, dm, k, m)
	j.gatesBack(r, head, dg, dbeta)
}

// scaleBack turns ds, the gradient of g·s, into that of s, and returns that of g.
func scaleBack(ds, s []float32, g float32) (dg float64) {
	for i, x := range ds {
		dg += float64(x) * float64(s[i])
	}
	scaleRow(ds, g)
	return dg
}

// addOuter is w += u·eᵀ; buf has room for u.
func addOuter(w, u, e, buf []float32) {
	for i, x := range u {
		buf[i] = -x
	}
	simd.SubtractOuter(w, len(e), buf[:len(u)], e)
}

// gatesBack adds the gradients of a and b, given those of g and β; if Plain, that of a, given those of g and Δ.
func (j *deltaBack) gatesBack(r, head int, dg, dbeta float64) {
	x, rate := float64(j.a.row(r)[head])+float64(j.bias[head]), math.Exp(float64(j.decay[head]))
	if j.Plain {
		if step := softplus(x); step > float64(j.Least) {
			j.da.row(r)[head] += float32((dbeta - dg*rate*math.Exp(-rate*step)) / (1 + math.Exp(-x)))
		}
		return
	}
	j.da.row(r)[head] -= float32(dg * math.Exp(-rate*softplus(x)) * rate / (1 + math.Exp(-x)))
	beta := float64(sigmoid(j.b.row(r)[head]))
	j.db.row(r)[head] += float32(dbeta * float64(j.Limit()) * beta * (1 - beta))
}

// silus turns a row's gradients of columns into those of what silu has seen.
func (j *deltaBack) silus(d *Device, r int) {
	n := j.Columns()
	buf, release := d.borrowed(3 * n)
	defer release()
	seen, y, dy := buf[:n], buf[n:2*n], j.grad(r, 0, n)
	j.sum(seen, buf[2*n:], r)
	simd.SiLUMul(y, seen, ones(buf[2*n:]))
	for h := 0; h < 2*j.Keys() && !j.Plain; h += j.KeyDim {
		scale := float32(1)
		if h < j.Keys() {
			scale = j.scale()
		}
		unitBack(dy[h:h+j.KeyDim], y[h:h+j.KeyDim], scale)
	}
	for i, x := range seen {
		_, slope := slopes[device.SiLU](float64(x))
		dy[i] *= float32(slope)
	}
}

// unitBack replaces dy, the gradient of x divided by its length, times scale, by that of x, which it changes.
func unitBack(dy, x []float32, scale float32) {
	inv := unit(x)
	along := 0.0
	for i, v := range x {
		along += float64(v) * float64(dy[i])
	}
	for i, v := range x {
		dy[i] = float32(float64(scale) * inv * (float64(dy[i]) - along*float64(v)))
	}
}

// inputsBack adds the gradients of a row's q, k and v, which the rows behind have seen, too.
func (j *deltaBack) inputsBack(grads []strided, r int) {
	at := 0
	for _, g := range grads {
		dx := g.row(r)
		for c := range dx {
			w := j.conv[(at+c)*j.Kernel:][:j.Kernel]
			for i := range j.Kernel {
				if behind := r + j.Kernel - 1 - i; behind/j.span == r/j.span {
					dx[c] += w[i] * j.dcolumns.row(behind)[at+c]
				}
			}
		}
		at += len(dx)
	}
}
