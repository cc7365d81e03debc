package quant

import (
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// A Target is a weight to be stored: [k, n] in stored order, n padded.
type Target struct {
	f   *Factor
	w   tensor.Tensor
	out int // before padding
}

// Target returns the weight w, [out, in] as files have it, as it should be
// stored: if the Hessian has a reference, with what makes up for the drift of
// its inputs, W + (H+λ)⁻¹·(Xᵀ(X̃-X)·W + Xᵀ(r̃-r)).
func (f *Factor) Target(w tensor.Tensor) *Target {
	d := f.dev
	n := exl2.Pad(w.Rows)
	t := &Target{f: f, w: d.Alloc(tensor.F32, f.k, n), out: w.Rows}
	if f.drift.Nil() {
		d.TakeT(t.w, w, f.perm)
		return t
	}
	source := d.Alloc(tensor.F32, f.k, n)
	defer d.Free(source)
	d.TakeT(source, w, tensor.Tensor{})
	d.SubtractProduct(t.w, f.drift, source)
	if !f.residual.Nil() && f.residual.Cols == n {
		d.AddScaled(t.w, f.residual, 1)
	}
	d.Solve(t.w, f.U)
	d.TakeT(source, w, f.perm)
	d.AddScaled(t.w, source, 1)
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
