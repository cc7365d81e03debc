package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// Draw draws a column of every row.
func (d *Device) Draw(ids, logits, random tensor.Tensor) {
	want(random.Rows == 1 && random.Cols == logits.Rows && ids.Rows*ids.Cols == logits.Rows && (logits.Cols > 0 || logits.Rows == 0), "Draw", ids, logits, random)
	rows, list, out := rowsOf("Draw", logits), floats("Draw", random), ints("Draw", ids)
	parallel.For(logits.Rows, func(r int) {
		drawn, _ := draw(rows.row(r), list[r])
		out[r] = int32(drawn)
	})
}

// DivergenceBack stores Σ p·log(p/q) of every row and leaves q - p.
func (d *Device) DivergenceBack(divergence, logits, reference tensor.Tensor) {
	want(logits.Rows == reference.Rows && logits.Cols == reference.Cols && divergence.Rows*divergence.Cols == logits.Rows && (logits.Cols > 0 || logits.Rows == 0), "DivergenceBack", divergence, logits, reference)
	rows, sources, out := rowsOf("DivergenceBack", logits), rowsOf("DivergenceBack", reference), floats("DivergenceBack", divergence)
	parallel.For(logits.Rows, func(r int) {
		buf, release := d.borrowed(2 * logits.Cols)
		defer release()
		out[r] = float32(divergenceBack(rows.row(r), sources.row(r), buf))
	})
}

// divergenceBack takes room for two rows.
func divergenceBack(x, source, buf []float32) (sum float64) {
	n := len(x)
	p, q := buf[:n], buf[n:]
	topP, topQ := simd.Max(source), simd.Max(x)
	sumP, sumQ := float64(simd.ExpSum(p, source, topP)), float64(simd.ExpSum(q, x, topQ))
	apart := float64(topQ) + math.Log(sumQ) - float64(topP) - math.Log(sumP) // of log q and log p, beside their logits
	for c, e := range p {
		if e > 0 {
			sum += float64(e) * (float64(source[c]) - float64(x[c]) + apart)
		}
		x[c] = float32(float64(q[c])/sumQ - float64(e)/sumP)
	}
	return sum / sumP
}

// ProductsBack is dx += Σ dy·w and dw += dyᵀ·x.
func (d *Device) ProductsBack(dx tensor.Tensor, list []device.Passed, x tensor.Tensor) {
	for _, p := range list {
		if !dx.Nil() {
			d.MatMulBack(dx, p.DY, p.W)
		}
		d.Gram(p.DW, p.DY, x)
	}
}

// AttendBackHalf is AttendBack: nothing is rounded.
func (d *Device) AttendBackHalf(dq, dk, dv, dy, _, q, k, v tensor.Tensor, a device.Attend, b device.Batch) {
	d.AttendBack(dq, dk, dv, dy, q, k, v, a, b)
}

// A latent is a device.Latent as slices.
type latent struct {
	v, scale, zero []float32
	group          []int32
	in, groups     int
}

func latentOf(op string, w tensor.Tensor, l device.Latent) latent {
	groups := l.Zero.Rows * l.Zero.Cols
	want(w.Rows == l.V.Rows && w.Cols == l.V.Cols && l.Scale.Rows == w.Rows && l.Scale.Cols == groups && l.Group.Rows*l.Group.Cols == w.Cols, op, w, l.V, l.Scale, l.Group, l.Zero)
	return latent{floats(op, l.V), floats(op, l.Scale), floats(op, l.Zero), ints(op, l.Group), w.Cols, groups}
}

// each calls f for the elements of every row: place in the matrix, scale, and zero.
func (l *latent) each(rows int, f func(at int, scale, zero float32)) {
	parallel.Runs(rows, max(1, pieceSize/max(1, l.in)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			scales := l.scale[r*l.groups : (r+1)*l.groups]
			for i, g := range l.group {
				f(r*l.in+i, scales[g], l.zero[g])
			}
		}
	})
}

// storer returns what stores a weight in w, rounded to fp16.
func storer(op string, w tensor.Tensor) func(at int, x float32) {
	if w.Type == tensor.F16 {
		out := elements[half.F16](w)
		return func(at int, x float32) { out[at] = half.ToF16(x) }
	}
	out := floats(op, w)
	return func(at int, x float32) { out[at] = half.ToF16(x).Float32() }
}

// nearest returns the code, less zero, that v rounds to.
func nearest(v, zero float32) float32 {
	return min(max(float32(math.RoundToEven(float64(v))), -zero), zero-1)
}

// RoundLatent stores the weights of the nearest codes.
func (d *Device) RoundLatent(w tensor.Tensor, l device.Latent) {
	s, store := latentOf("RoundLatent", w, l), storer("RoundLatent", w)
	s.each(w.Rows, func(at int, scale, zero float32) { store(at, nearest(s.v[at], zero)*scale) })
}

// TrainLatent takes a step of Adam.
func (d *Device) TrainLatent(w tensor.Tensor, l device.Latent, first, second, dw tensor.Tensor, a device.Adam) {
	for _, t := range []tensor.Tensor{first, second, dw} {
		want(t.Rows == w.Rows && t.Cols == w.Cols, "TrainLatent", t, w)
	}
	wantType("TrainLatent", first, tensor.BF16)
	wantType("TrainLatent", second, tensor.BF16)
	s, store := latentOf("TrainLatent", w, l), storer("TrainLatent", w)
	m, squares, grad := elements[half.BF16](first), elements[half.BF16](second), floats("TrainLatent", dw)
	s.each(w.Rows, func(at int, scale, zero float32) {
		g := grad[at] * scale
		x := float32(a.Beta1*m[at].Float32()) + float32((1-a.Beta1)*g)
		y := float32(a.Beta2*squares[at].Float32()) + float32((1-a.Beta2)*g*g)
		m[at], squares[at] = half.ToBF16(x), half.ToBF16(y)
		v := s.v[at] - float32(a.Rate*(x*a.First)/(float32(math.Sqrt(float64(y*a.Second)))+a.Eps))
		v = min(max(v, -zero-device.Reach), zero-1+device.Reach)
		code := nearest(v, zero)
		s.v[at] = v + float32(a.Pull*(code-v))
		store(at, code*scale)
	})
}
