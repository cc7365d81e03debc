package quant

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A columnBlock is columns of a span that are improved together.
type columnBlock struct {
	*span
	lo, hi int
	c      device.Coding
}

// take takes the targets and the codes of the columns from lo to hi.
func (s *span) take(lo, hi int) *columnBlock {
	d, r, n := s.r.f.dev, s.r, hi-lo
	b := &columnBlock{span: s, lo: lo, hi: hi, c: device.Coding{
		Groups: r.c.Groups, Largest: r.c.Largest, W: d.Alloc(tensor.F32, r.f.k, n),
		Codes: d.Alloc(tensor.U8, r.f.k, n), Scales: d.Alloc(tensor.U8, len(r.c.Groups), n),
	}}
	d.Take(b.c.W, s.target, tensor.Tensor{}, s.places.Columns(lo, hi))
	d.TakeCodes(b.c.Codes, r.c.Codes, s.cols.Columns(lo, hi))
	d.TakeCodes(b.c.Scales, r.c.Scales, s.cols.Columns(lo, hi))
	return b
}

// settle has the span's other columns make up for the block's errors, and puts the
// codes back.
func (b *columnBlock) settle() {
	d, k, n := b.r.f.dev, b.r.f.k, b.hi-b.lo
	if b.hi < len(b.order) {
		values, turned, feed := d.Alloc(tensor.F32, k, n), d.Alloc(tensor.F32, n, k), d.Alloc(tensor.F32, n, len(b.order))
		d.SubtractProduct(feed, b.block(b.lo, b.hi), b.u.Slice(b.lo, b.hi))
		d.Values(values, b.c)
		d.AddScaled(b.c.W, values, -1)
		d.TakeT(turned, b.c.W, tensor.Tensor{})
		d.SubtractProduct(b.target, turned, feed)
		for _, t := range []tensor.Tensor{values, turned, feed} {
			d.Free(t)
		}
	}
	d.PutCodes(b.r.c.Codes, b.c.Codes, b.cols.Columns(b.lo, b.hi))
	for _, t := range []tensor.Tensor{b.c.W, b.c.Codes, b.c.Scales} {
		d.Free(t)
	}
}
