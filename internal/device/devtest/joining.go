package devtest

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Join does what device.Joiner says by operations of d. Its products are larger by a share, so that
// what is made so can be told from what is not, and bytes of both from each other.
func Join(d device.Device, p device.Products, w tensor.Tensor, more float32) bool {
	row, ys := 0, make([]tensor.Tensor, len(p.List))
	for i, l := range p.List {
		n := w.Rows / len(p.List)
		if p.Then == device.Turn {
			n = l.Y.Cols
		}
		y, whole := d.Alloc(d.Activation(), p.X.Rows, n), d.Alloc(d.Activation(), p.X.Rows, n)
		d.MatMul(y, p.X, w.Slice(row, row+n), l.Bias)
		d.Copy(whole, y)
		d.AddScaled(whole, y, more)
		defer d.Free(y)
		defer d.Free(whole)
		ys[i] = whole
		row += n
	}
	switch p.Then {
	case device.Gate:
		d.ActMul(p.List[0].Y, ys[0], ys[1], p.Act)
	case device.Add:
		d.AddScaled(p.List[0].Y, ys[0], 1)
	case device.Turn:
		t := p.Turn
		d.Copy(p.List[0].Y, ys[0])
		d.Rope(p.List[0].Y, ys[1], t.Freqs, t.HeadDim, t.Rope, t.Batch)
		d.Store(t.Cache, t.Layer, ys[1], ys[2], t.Batch)
	}
	return true
}
