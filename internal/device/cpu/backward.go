package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// MatMulBack is dx += dy·w, some rows of w at a time.
func (d *Device) MatMulBack(dx, dy, w tensor.Tensor) {
	want(dx.Rows == dy.Rows && dy.Cols == w.Rows && dx.Cols == w.Cols, "MatMulBack", dx, dy, w)
	out, in, n := rowsOf("MatMulBack", dx), rowsOf("MatMulBack", dy), w.Cols
	size := stripe(n)
	for lo := 0; lo < w.Rows; lo += size {
		k := min(size, w.Rows-lo)
		wide, release := d.borrowed(k * n)
		parallel.Runs(k, widenTile, func(from, to int) {
			for r := from; r < to; r++ {
				widenRow(wide[r*n:(r+1)*n], w, lo+r)
			}
		})
		blas.Multiply(&simd.Product[float32]{
			M: dx.Rows, N: n, K: k, Alpha: 1, Beta: 1, C: out.data, LDC: out.stride,
			A: simd.Operand[float32]{Data: in.data[lo:], Row: in.stride, Col: 1},
			B: simd.Operand[float32]{Data: wide, Row: n, Col: 1},
		})
		release()
	}
}

// NormBack is dx += J(x)ᵀ·dy by rows.
func (d *Device) NormBack(dx, dy, x, w tensor.Tensor, n device.Norm) {
	want(dx.Rows == x.Rows && dx.Cols == x.Cols && dy.Rows == x.Rows && dy.Cols == x.Cols && w.Cols == x.Cols, "NormBack", dx, dy, x, w)
	out, grad, in, weight := rowsOf("NormBack", dx), rowsOf("NormBack", dy), rowsOf("NormBack", x), floats("NormBack", w)
	parallel.Runs(x.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			normBack(out.row(r), grad.row(r), in.row(r), weight, n)
		}
	})
}

// normBack adds, with g = dy·(w + Offset) and z the normalized x,
// inv·(g - mean(g) - z·mean(g·z)) to dx; the mean of g for Layer alone.
func normBack(dx, dy, x, w []float32, n device.Norm) {
	mean, inv := moments(x, n)
	sum, along := 0.0, 0.0
	for i, v := range x {
		g := float64(dy[i]) * float64(w[i]+n.Offset)
		sum, along = sum+g, along+g*(float64(v)-mean)*inv
	}
	sum, along = sum/float64(len(x)), along/float64(len(x))
	if n.Kind != device.Layer {
		sum = 0
	}
	for i, v := range x {
		g := float64(dy[i]) * float64(w[i]+n.Offset)
		dx[i] += float32(inv * (g - sum - (float64(v)-mean)*inv*along))
	}
}

// ActMulBack is the gradient of y = act(gate)·up, or act(gate).
func (d *Device) ActMulBack(dgate, dup, dy, gate, up tensor.Tensor, a device.Act) {
	if up.Nil() {
		d.actAloneBack(dgate, dy, gate, a)
		return
	}
	for _, t := range []tensor.Tensor{dgate, dup, dy, up} {
		want(t.Rows == gate.Rows && t.Cols == gate.Cols, "ActMulBack", t, gate)
	}
	flatten(&dgate, &dup, &dy, &gate, &up)
	dg, du, grad := rowsOf("ActMulBack", dgate), rowsOf("ActMulBack", dup), rowsOf("ActMulBack", dy)
	gs, us, f := rowsOf("ActMulBack", gate), rowsOf("ActMulBack", up), slopes[a]
	pieces(gate.Rows, gate.Cols, func(r, lo, hi int) {
		dg, du, grad, us := dg.row(r)[lo:hi], du.row(r)[lo:hi], grad.row(r)[lo:hi], us.row(r)[lo:hi]
		for i, g := range gs.row(r)[lo:hi] {
			value, slope := f(float64(g))
			dg[i] += grad[i] * us[i] * float32(slope)
			du[i] += grad[i] * float32(value)
		}
	})
}

// actAloneBack is the gradient of y = act(gate).
func (d *Device) actAloneBack(dgate, dy, gate tensor.Tensor, a device.Act) {
	want(dgate.Rows == gate.Rows && dgate.Cols == gate.Cols && dy.Rows == gate.Rows && dy.Cols == gate.Cols, "ActMulBack", dgate, dy, gate)
	flatten(&dgate, &dy, &gate)
	dg, grad, gs, f := rowsOf("ActMulBack", dgate), rowsOf("ActMulBack", dy), rowsOf("ActMulBack", gate), slopes[a]
	pieces(gate.Rows, gate.Cols, func(r, lo, hi int) {
		dg, grad := dg.row(r)[lo:hi], grad.row(r)[lo:hi]
		for i, g := range gs.row(r)[lo:hi] {
			_, slope := f(float64(g))
			dg[i] += grad[i] * float32(slope)
		}
	})
}

// slopes are the activation functions with their derivatives.
var slopes = [...]func(x float64) (value, slope float64){
	device.SiLU: func(x float64) (float64, float64) {
		s := 1 / (1 + math.Exp(-x))
		return x * s, s * (1 + x*(1-s))
	},
	device.GELU: func(x float64) (float64, float64) {
		p := 0.5 * (1 + math.Erf(x/math.Sqrt2))
		return x * p, p + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	},
	device.GELUTanh: func(x float64) (float64, float64) {
		const a, b = 0.7978845608028654, 0.044715 // √(2/π), and the cube's factor
		t := math.Tanh(a * (x + b*x*x*x))
		return 0.5 * x * (1 + t), 0.5*(1+t) + 0.5*x*(1-t*t)*a*(1+3*b*x*x)
	},
	device.ReLU: func(x float64) (float64, float64) {
		if x > 0 {
			return x, 1
		}
		return 0, 0
	},
	device.Logistic: func(x float64) (float64, float64) {
		s := 1 / (1 + math.Exp(-x))
		return s, s * (1 - s)
	},
	device.Softplus: func(x float64) (float64, float64) {
		return softplus(x), 1 / (1 + math.Exp(-x))
	},
}

// RopeBack rotates gradients back.
func (d *Device) RopeBack(dq, dk, freqs tensor.Tensor, headDim int, r device.Rope, b device.Batch) {
	want(dq.Rows == dk.Rows && dq.Rows == b.Pos.Cols && r.Dims <= headDim && freqs.Cols == r.Dims/2, "RopeBack", dq, dk, freqs, b.Pos)
	d.rotate("RopeBack", dq, dk, freqs, headDim, r, b, -1)
}

// CapBack replaces dx by dx·scale·(1 - (y/cap)²), or dx·scale.
func (d *Device) CapBack(dx, y tensor.Tensor, scale, softcap float32) {
	want(dx.Rows == y.Rows && dx.Cols == y.Cols, "CapBack", dx, y)
	flatten(&dx, &y)
	grad, result := rowsOf("CapBack", dx), rowsOf("CapBack", y)
	pieces(dx.Rows, dx.Cols, func(r, lo, hi int) {
		g := grad.row(r)[lo:hi]
		for i, v := range result.row(r)[lo:hi] {
			g[i] *= scale * capSlope(v, softcap)
		}
	})
}

// capSlope is the derivative of capped where the result is y.
func capSlope(y, limit float32) float32 {
	if limit == 0 {
		return 1
	}
	t := y / limit
	return (1 - t) * (1 + t)
}

// SampleBack draws a column of every row and leaves the gradient of -log p.
func (d *Device) SampleBack(logits, random tensor.Tensor) {
	want(random.Rows == 1 && random.Cols == logits.Rows && (logits.Cols > 0 || logits.Rows == 0), "SampleBack", logits, random)
	rows, list := rowsOf("SampleBack", logits), floats("SampleBack", random)
	parallel.For(logits.Rows, func(r int) {
		row := rows.row(r)
		drawn, total := draw(row, list[r])
		for c, e := range row {
			row[c] = float32(float64(e) / total)
		}
		row[drawn]--
	})
}

// draw turns a row of logits into exponentials, with their sum, and returns the first
// column up to which they make more than a share of it.
func draw(row []float32, share float32) (drawn int, total float64) {
	simd.ExpSum(row, row, simd.Max(row))
	for _, e := range row {
		total += float64(e)
	}
	upTo := 0.0
	for c, e := range row {
		if upTo += float64(e); upTo > float64(share)*total {
			return c, total
		}
	}
	return len(row) - 1, total
}
