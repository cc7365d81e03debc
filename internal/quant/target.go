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

// Target returns the weight w, [out, in] as files have it, as the one to be stored.
func (f *Factor) Target(w tensor.Tensor) *Target {
	t := &Target{f: f, w: device.Blank(f.dev, tensor.F32, f.k, exl2.Pad(w.Rows)), out: w.Rows}
	f.dev.TakeT(t.w, w, f.perm)
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
