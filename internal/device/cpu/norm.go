package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// Norm is y = normalize(x)·(w + n.Offset) + bias by rows.
func (d *Device) Norm(y, x, w, bias tensor.Tensor, n device.Norm) {
	want(y.Rows == x.Rows && y.Cols == x.Cols && w.Cols == x.Cols && (bias.Nil() || bias.Cols == x.Cols), "Norm", y, x, w, bias)
	out, in, weight := rowsOf("Norm", y), rowsOf("Norm", x), floats("Norm", w)
	var shift []float32
	if !bias.Nil() {
		shift = floats("Norm", bias)
	}
	parallel.Runs(x.Rows, rowsAtOnce(x.Cols), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			normalize(out.row(r), in.row(r), weight, shift, n)
		}
	})
}

// HeadNorms is HeadNorm of queries and of keys.
func (d *Device) HeadNorms(q, k, wq, wk tensor.Tensor, n device.Norm) {
	want(q.Rows == k.Rows && wq.Cols == wk.Cols, "HeadNorms", q, k, wq, wk)
	d.HeadNorm(q, wq, q.Cols/wq.Cols, n)
	d.HeadNorm(k, wk, k.Cols/wk.Cols, n)
}

// HeadNorm applies Norm to each head of every row, with weights of all heads or of its own.
func (d *Device) HeadNorm(x, w tensor.Tensor, heads int, n device.Norm) {
	want(x.Cols == heads*w.Cols && (w.Rows == 1 || w.Rows == heads), "HeadNorm", x, w)
	all, weights, dim := rowsOf("HeadNorm", x), rowsOf("HeadNorm", w), w.Cols
	parallel.Runs(x.Rows, rowsAtOnce(x.Cols), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := all.row(r)
			for h := range heads {
				head := row[h*dim : (h+1)*dim]
				normalize(head, head, weights.row(h%w.Rows), nil, n)
			}
		}
	})
}

// normalize stores the normalized x in y; sums are in float64.
func normalize(y, x, w, shift []float32, n device.Norm) {
	mean, inv := moments(x, n)
	for i, v := range x {
		y[i] = float32((float64(v) - mean) * inv * float64(w[i]+n.Offset))
	}
	for i := range shift {
		y[i] += shift[i]
	}
}

// moments returns what a norm subtracts from x, and multiplies it by.
func moments(x []float32, n device.Norm) (mean, inv float64) {
	if n.Kind == device.Layer {
		for _, v := range x {
			mean += float64(v)
		}
		mean /= float64(len(x))
	}
	squares := squaresAround(x, mean)
	return mean, 1 / math.Sqrt(squares/float64(len(x))+float64(n.Eps))
}

// squaresAround returns Σ (x-mean)², in four sums that do not wait for each other.
func squaresAround(x []float32, mean float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		e, f, g, h := float64(x[0])-mean, float64(x[1])-mean, float64(x[2])-mean, float64(x[3])-mean
		a, b, c, d = a+e*e, b+f*f, c+g*g, d+h*h
	}
	for _, v := range x {
		a += (float64(v) - mean) * (float64(v) - mean)
	}
	return (a + b) + (c + d)
}
