package quant

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A Deviation is the error of a quantized matrix, and what it costs where the
// gradients of the matrix's outputs are known.
type Deviation struct {
	dev device.Quantize

	// The error Δ = Q - T and -HΔ, transposed to [out, k] as weights are. H is
	// without damping; of a Plain factor it is the mean of its diagonal.
	delta, moved tensor.Tensor
}

// Deviation returns the result's error.
func (r *Result) Deviation() Deviation {
	f, d := r.f, r.f.dev
	delta, moved := d.Alloc(tensor.F32, f.k, r.c.W.Cols), d.Alloc(tensor.F32, f.k, r.c.W.Cols)
	defer d.Free(delta)
	defer d.Free(moved)
	d.Values(delta, r.c)
	d.AddScaled(delta, r.c.W, -1)
	if f.Plain {
		d.AddScaled(moved, delta, -f.Mean)
	} else {
		d.SubtractProduct(moved, f.H, delta)
		d.AddScaled(moved, delta, f.Damp)
	}
	return Deviation{d, r.turned(delta), r.turned(moved)}
}

// turned returns a matrix in stored order as weights are, without padding.
func (r *Result) turned(m tensor.Tensor) tensor.Tensor {
	t := r.f.dev.Alloc(tensor.F32, m.Cols, m.Rows)
	r.f.dev.TakeT(t, m, tensor.Tensor{})
	return t
}

// Cost stores -tr(G·ΔᵀHΔ) in sum, F64 [1, 1], for G = Σ gᵀg over rows g, F32
// [rows, out], of gradients of the matrix's outputs.
func (v Deviation) Cost(sum, g tensor.Tensor) {
	d, k := v.dev, v.delta.Cols
	a, b := d.Alloc(tensor.F32, g.Rows, k), d.Alloc(tensor.F32, g.Rows, k)
	defer d.Free(a)
	defer d.Free(b)
	d.MatMulBack(a, g, v.delta.Slice(0, g.Cols))
	d.MatMulBack(b, g, v.moved.Slice(0, g.Cols))
	d.Dot(sum, a, b)
}

// Free frees the error.
func (v Deviation) Free() {
	if v.dev != nil {
		v.dev.Free(v.delta)
		v.dev.Free(v.moved)
	}
}
