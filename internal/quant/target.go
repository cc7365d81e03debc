package quant

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// A Target is a weight to be stored: [k, n] in stored order, n padded.
type Target struct {
	f   *Factor
	w   tensor.Tensor
	out int // before padding
}

// A Correction is what makes up for the drift of a linear's inputs, before the factor
// is applied: Xᵀ(X̃-X)·W + Xᵀ(r̃-r), [k, n], in the order of the source. The zero value
// is none.
type Correction struct {
	dev device.Quantize
	w   tensor.Tensor
}

// Free frees the correction, if that is not done.
func (c *Correction) Free() {
	if !c.w.Nil() {
		c.dev.Free(c.w)
		c.w = tensor.Tensor{}
	}
}

// Corrections returns those of weights, [out, in] as files have them, and frees the
// moments that they are made of: nothing else has use for them.
func (h *Hessian) Corrections(weights []tensor.Tensor) []*Correction {
	list := make([]*Correction, len(weights))
	for i, w := range weights {
		list[i] = &Correction{dev: h.dev}
		if !h.drift.Nil() {
			list[i].w = h.correction(w)
		}
	}
	h.free(&h.drift)
	h.free(&h.residual)
	return list
}

func (h *Hessian) correction(w tensor.Tensor) tensor.Tensor {
	d, n := h.dev, exl2.Pad(w.Rows)
	y, source := d.Alloc(tensor.F32, h.k, n), d.Alloc(tensor.F32, h.k, n)
	defer d.Free(source)
	d.TakeT(source, w, tensor.Tensor{})
	d.SubtractProduct(y, h.drift, source)
	if !h.residual.Nil() && h.residual.Cols == n {
		d.AddScaled(y, h.residual, 1)
	}
	return y
}

// Target returns the weight w, [out, in] as files have it, as the one to be stored.
func (f *Factor) Target(w tensor.Tensor) *Target {
	t := &Target{f: f, w: f.dev.Alloc(tensor.F32, f.k, exl2.Pad(w.Rows)), out: w.Rows}
	f.dev.TakeT(t.w, w, f.perm)
	return t
}

// Corrected returns W + (H+λ)⁻¹·c as the one to be stored, and frees c.
func (f *Factor) Corrected(w tensor.Tensor, c *Correction) *Target {
	defer c.Free()
	t := f.Target(w)
	if c.w.Nil() || f.Nearest {
		return t
	}
	d := f.dev
	more := d.Alloc(tensor.F32, t.w.Rows, t.w.Cols)
	defer d.Free(more)
	d.Take(more, c.w, f.perm, tensor.Tensor{})
	c.Free()
	d.Solve(more, f.U)
	d.AddScaled(t.w, more, 1)
	return t
}

// Square stores -tr(WᵀHW), with the H of errors, which are relative to that, in
// sum, F64 [1, 1].
func (t *Target) Square(sum tensor.Tensor) {
	f, d := t.f, t.f.dev
	y := d.Alloc(tensor.F32, t.w.Rows, t.w.Cols)
	defer d.Free(y)
	d.SubtractProduct(y, f.H, t.w)
	d.Dot(sum, y, t.w)
}

// Free frees the target.
func (t *Target) Free() { t.f.dev.Free(t.w) }
