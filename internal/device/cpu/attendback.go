package cpu

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// AttendBack is the gradient of Attend over whole sequences. One goroutine takes
// the heads that share keys and values of one sequence.
func (d *Device) AttendBack(dq, dk, dv, dy, q, k, v tensor.Tensor, a device.Attend, b device.Batch) {
	const op = "AttendBack"
	width := a.HeadDim
	if a.Latent > 0 {
		width = a.Latent
	}
	for _, x := range []struct {
		list []tensor.Tensor
		cols int
	}{{[]tensor.Tensor{q, dq}, a.Heads * a.HeadDim}, {[]tensor.Tensor{k, dk}, a.KVHeads * a.HeadDim}, {[]tensor.Tensor{v, dv}, a.KVHeads * width}, {[]tensor.Tensor{dy}, a.Heads * width}} {
		for _, t := range x.list {
			want(t.Rows == q.Rows && t.Cols == x.cols, op, t, q)
		}
	}
	want((a.Latent == 0 || a.KVHeads == 1) && q.Rows == b.Pos.Cols && q.Rows%b.Span == 0, op, q, k, b.Pos)
	j := attentionBack{
		attention: attention{Attend: a, q: rowsOf(op, q), width: width}, k: rowsOf(op, k), v: rowsOf(op, v),
		dq: rowsOf(op, dq), dk: rowsOf(op, dk), dv: rowsOf(op, dv), dy: rowsOf(op, dy), span: b.Span,
	}
	if !a.Sinks.Nil() {
		want(a.Sinks.Cols == a.Heads, op, a.Sinks)
		j.sinks = floats(op, a.Sinks)
	}
	parallel.For(q.Rows/b.Span*a.KVHeads, func(i int) {
		first := i / a.KVHeads * b.Span
		group := a.Heads / a.KVHeads
		for head := i % a.KVHeads * group; head < (i%a.KVHeads+1)*group; head++ {
			for lo := 0; lo < b.Span; lo += attendTile {
				d.attendBackRows(j, head, first, lo, min(b.Span, lo+attendTile))
			}
		}
	})
}

// attentionBack is what every tile of an AttendBack shares.
type attentionBack struct {
	attention
	k, v, dq, dk, dv, dy strided
	span                 int
}

// attendBackRows adds the gradients of one head of rows lo to hi of the sequence
// that begins at row first. With P the weights and S the scores,
//
//	dV = Pᵀ·dY, dP = dY·Vᵀ, dS = P∘(dP - rowsum(P∘dP))∘cap', dQ = scale·dS·K, dK = scale·dSᵀ·Q.
//
// A sink has a weight and no value: it makes P smaller, and nothing else. A
// temperature multiplies scores, and so their gradients.
func (d *Device) attendBackRows(j attentionBack, head, first, lo, hi int) {
	dim, rows, from := j.HeadDim, hi-lo, 0
	if j.Window > 0 {
		from = max(0, lo-j.Window+1)
	}
	n := hi - from
	padded := (n + scoreUnit - 1) / scoreUnit * scoreUnit
	buf, release := d.borrowed(3 * rows * padded)
	defer release()
	scores, weights, grads := buf[:rows*padded], buf[rows*padded:2*rows*padded], buf[2*rows*padded:]
	kv := head / (j.Heads / j.KVHeads)
	at := func(s strided, row, col int) []float32 { return s.data[(first+row)*s.stride+col:] }
	q, dq, dy := at(j.q, lo, head*dim), at(j.dq, lo, head*dim), at(j.dy, lo, head*j.width)
	k, v, dk, dv := at(j.k, from, kv*dim), at(j.v, from, kv*j.width), at(j.dk, from, kv*dim), at(j.dv, from, kv*j.width)

	sgemm := blas32.Implementation().Sgemm
	sgemm(blas.NoTrans, blas.Trans, rows, n, dim, j.Scale, q, j.q.stride, k, j.k.stride, 0, scores, padded)
	for r := range rows {
		j.heat(scores[r*padded:r*padded+n], lo+r)
	}
	copy(weights, scores)
	for r := range rows {
		start := 0
		if j.Window > 0 {
			start = max(0, lo+r-from-j.Window+1)
		}
		row := weights[r*padded : (r+1)*padded]
		scaleRow(row, 1/j.weigh(row, start, lo+r-from+1, head))
	}
	sgemm(blas.Trans, blas.NoTrans, n, j.width, rows, 1, weights, padded, dy, j.dy.stride, 1, dv, j.dv.stride)
	sgemm(blas.NoTrans, blas.Trans, rows, n, j.width, 1, dy, j.dy.stride, v, j.v.stride, 0, grads, padded)
	for r := range rows {
		row := grads[r*padded : r*padded+n]
		j.scoreGrads(row, weights[r*padded:], scores[r*padded:])
		j.heat(row, lo+r)
	}
	sgemm(blas.NoTrans, blas.NoTrans, rows, dim, n, j.Scale, grads, padded, k, j.k.stride, 1, dq, j.dq.stride)
	sgemm(blas.Trans, blas.NoTrans, n, dim, rows, j.Scale, grads, padded, q, j.q.stride, 1, dk, j.dk.stride)
}

// scoreGrads turns the gradients of a row's weights into those of its scores.
func (j *attentionBack) scoreGrads(grads, weights, scores []float32) {
	sum := 0.0
	for i, g := range grads {
		sum += float64(weights[i]) * float64(g)
	}
	for i, g := range grads {
		grads[i] = weights[i] * (g - float32(sum))
		if j.Softcap != 0 && weights[i] != 0 {
			t := math.Tanh(float64(scores[i] / j.Softcap))
			grads[i] *= float32(1 - t*t)
		}
	}
}
