package cpu

import (
	"fmt"
	"math"

	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// rowTile is how many rows of a row-by-row operation one goroutine takes.
const rowTile = 16

// Embed is y[r] = scale·table[ids[r]].
func (d *Device) Embed(y, table, ids tensor.Tensor, scale float32) {
	want(y.Cols == table.Cols && y.Rows == ids.Cols, "Embed", y, table, ids)
	list, out := ints("Embed", ids), floats("Embed", y)
	for r, id := range list {
		if id < 0 || int(id) >= table.Rows {
			d.fail("Embed: token id %d, vocabulary of %d", id, table.Rows)
			return
		}
		row := out[r*y.Cols : (r+1)*y.Cols]
		widenRow(row, table, int(id))
		scaleRow(row, scale)
	}
}

// widenRow stores row r of a floating-point tensor in dst.
func widenRow(dst []float32, t tensor.Tensor, r int) {
	row := t.Slice(r, r+1)
	switch t.Type {
	case tensor.F32:
		copy(dst, elements[float32](row))
	case tensor.F16:
		simd.WidenF16(dst, elements[half.F16](row))
	case tensor.BF16:
		simd.WidenBF16(dst, elements[half.BF16](row))
	default:
		panic(fmt.Sprintf("cpu: %v is not floating-point", t))
	}
}

func scaleRow(row []float32, scale float32) {
	if scale == 1 {
		return
	}
	for i := range row {
		row[i] *= scale
	}
}

// Copy converts elements among F32, F16 and BF16.
func (d *Device) Copy(dst, src tensor.Tensor) {
	want(dst.Rows*dst.Cols == src.Rows*src.Cols, "Copy", dst, src)
	n := dst.Rows * dst.Cols
	dst, src = dst.Reshape(1, n), src.Reshape(1, n)
	if dst.Type == src.Type {
		copy(elements[byte](dst), elements[byte](src))
		return
	}
	wide := make([]float32, n)
	widenRow(wide, src, 0)
	switch dst.Type {
	case tensor.F32:
		copy(elements[float32](dst), wide)
	case tensor.F16:
		simd.NarrowF16(elements[half.F16](dst), wide)
	case tensor.BF16:
		for i, out := 0, elements[half.BF16](dst); i < n; i++ {
			out[i] = half.ToBF16(wide[i])
		}
	default:
		panic(fmt.Sprintf("cpu: Copy: %v to %v", src, dst))
	}
}

// Norm is y = normalize(x)·(w + n.Offset) + bias by rows.
func (d *Device) Norm(y, x, w, bias tensor.Tensor, n device.Norm) {
	want(y.Rows == x.Rows && y.Cols == x.Cols && w.Cols == x.Cols, "Norm", y, x, w)
	out, in, weight := floats("Norm", y), floats("Norm", x), floats("Norm", w)
	var shift []float32
	if !bias.Nil() {
		shift = floats("Norm", bias)
	}
	parallel.Runs(x.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			normalize(out[r*x.Cols:(r+1)*x.Cols], in[r*x.Cols:(r+1)*x.Cols], weight, shift, n)
		}
	})
}

// HeadNorm applies Norm to each head of every row.
func (d *Device) HeadNorm(x, w tensor.Tensor, heads int, n device.Norm) {
	want(x.Cols == heads*w.Cols, "HeadNorm", x, w)
	all := x.Reshape(x.Rows*heads, w.Cols)
	d.Norm(all, all, w, tensor.Tensor{}, n)
}

// normalize stores the normalized x in y; sums are in float64.
func normalize(y, x, w, shift []float32, n device.Norm) {
	mean := 0.0
	if n.Kind == device.Layer {
		for _, v := range x {
			mean += float64(v)
		}
		mean /= float64(len(x))
	}
	squares := squaresAround(x, mean)
	inv := 1 / math.Sqrt(squares/float64(len(x))+float64(n.Eps))
	for i, v := range x {
		y[i] = float32((float64(v) - mean) * inv * float64(w[i]+n.Offset))
	}
	for i := range shift {
		y[i] += shift[i]
	}
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

// Rope turns the leading dimensions of the heads of q and k.
func (d *Device) Rope(q, k, freqs tensor.Tensor, headDim int, r device.Rope, b device.Batch) {
	want(q.Rows == k.Rows && q.Rows == b.Pos.Cols && r.Dims <= headDim && freqs.Cols == r.Dims/2, "Rope", q, k, freqs, b.Pos)
	pos, f := ints("Rope", b.Pos), floats("Rope", freqs)
	qs, ks := floats("Rope", q), floats("Rope", k)
	parallel.Runs(q.Rows, rowTile, func(lo, hi int) {
		sin, cos := make([]float32, len(f)), make([]float32, len(f))
		for row := lo; row < hi; row++ {
			angles(sin, cos, f, pos[row], r.Scale)
			turnHeads(qs[row*q.Cols:(row+1)*q.Cols], sin, cos, headDim, r)
			turnHeads(ks[row*k.Cols:(row+1)*k.Cols], sin, cos, headDim, r)
		}
	})
}

func angles(sin, cos, freqs []float32, pos int32, scale float32) {
	if scale == 0 {
		scale = 1
	}
	for i, f := range freqs {
		s, c := math.Sincos(float64(pos) * float64(f))
		sin[i], cos[i] = float32(s)*scale, float32(c)*scale
	}
}

func turnHeads(x, sin, cos []float32, headDim int, r device.Rope) {
	for h := 0; h < len(x); h += headDim {
		head := x[h : h+r.Dims]
		for i := range sin {
			a, b := i, i+r.Dims/2
			if r.Interleaved {
				a, b = 2*i, 2*i+1
			}
			head[a], head[b] = head[a]*cos[i]-head[b]*sin[i], head[b]*cos[i]+head[a]*sin[i]
		}
	}
}

// ActMul is y = act(gate)·up.
func (d *Device) ActMul(y, gate, up tensor.Tensor, a device.Act) {
	want(y.Rows == gate.Rows && y.Cols == gate.Cols && up.Rows == gate.Rows && up.Cols == gate.Cols, "ActMul", y, gate, up)
	out, g, u := floats("ActMul", y), floats("ActMul", gate), floats("ActMul", up)
	parallel.Runs(len(out), 1<<14, func(lo, hi int) { actMul(out[lo:hi], g[lo:hi], u[lo:hi], a) })
}

func actMul(y, gate, up []float32, a device.Act) {
	switch a {
	case device.SiLU:
		simd.SiLUMul(y, gate, up)
		return
	case device.GELUTanh:
		simd.GELUTanhMul(y, gate, up)
		return
	}
	f := activations[a]
	for i, g := range gate {
		y[i] = f(g) * up[i]
	}
}

// activations are those that package simd does not have.
var activations = [...]func(float32) float32{
	device.GELU: func(x float32) float32 { return float32(0.5 * float64(x) * (1 + math.Erf(float64(x)/math.Sqrt2))) },
	device.ReLU: func(x float32) float32 { return max(x, 0) },
}

// AddScaled is y += scale·x.
func (d *Device) AddScaled(y, x tensor.Tensor, scale float32) {
	want(y.Rows == x.Rows && y.Cols == x.Cols, "AddScaled", y, x)
	out, in := floats("AddScaled", y), floats("AddScaled", x)
	for i, v := range in {
		out[i] += scale * v
	}
}

// Cap is x = cap·tanh(scale·x/cap), or scale·x.
func (d *Device) Cap(x tensor.Tensor, scale, softcap float32) {
	v := floats("Cap", x)
	parallel.Runs(len(v), 1<<14, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			v[i] = capped(v[i]*scale, softcap)
		}
	})
}

func capped(x, limit float32) float32 {
	if limit == 0 {
		return x
	}
	return limit * float32(math.Tanh(float64(x/limit)))
}

// ArgMax stores the column of each row's largest element; NaN is never it.
func (d *Device) ArgMax(ids, x tensor.Tensor) {
	want(ids.Cols == x.Rows, "ArgMax", ids, x)
	out, v := ints("ArgMax", ids), floats("ArgMax", x)
	for r := range out {
		row := v[r*x.Cols : (r+1)*x.Cols]
		best, at := float32(math.Inf(-1)), 0
		for c, f := range row {
			if f > best {
				best, at = f, c
			}
		}
		out[r] = int32(at)
	}
}

// Advance adds one to every position.
func (d *Device) Advance(pos tensor.Tensor) {
	for i, p := 0, ints("Advance", pos); i < len(p); i++ {
		p[i]++
	}
}
