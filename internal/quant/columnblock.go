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

// block takes the targets and the codes of the columns from lo to hi.
func (s *span) block(lo, hi int) *columnBlock {
	d, r, n := s.m.r.f.dev, s.m.r, hi-lo
	b := &columnBlock{span: s, lo: lo, hi: hi, c: device.Coding{
		Groups: r.c.Groups, Largest: r.c.Largest, W: d.Alloc(tensor.F32, r.f.k, n),
		Codes: d.Alloc(tensor.U8, r.f.k, n), Scales: d.Alloc(tensor.U8, len(r.c.Groups), n),
	}}
	d.Take(b.c.W, s.target, tensor.Tensor{}, s.places.Columns(lo, hi))
	d.Upload(b.c.Codes, gather(s.m.codes, r.c.Codes.Cols, s.order[lo:hi]))
	d.Upload(b.c.Scales, gather(s.m.scales, r.c.Codes.Cols, s.order[lo:hi]))
	return b
}

// gather returns some columns of bytes in rows of n.
func gather(all []byte, n int, cols []int32) []byte {
	out := make([]byte, 0, len(all)/n*len(cols))
	for ; len(all) > 0; all = all[n:] {
		for _, c := range cols {
			out = append(out, all[c])
		}
	}
	return out
}

// scatter puts columns that were gathered back.
func scatter(all []byte, n int, cols []int32, part []byte) {
	for ; len(all) > 0; all = all[n:] {
		for i, c := range cols {
			all[c] = part[i]
		}
		part = part[len(cols):]
	}
}

// settle has the span's other columns make up for the block's errors, and takes the
// codes to the host.
func (b *columnBlock) settle() {
	d, k, n := b.m.r.f.dev, b.m.r.f.k, b.hi-b.lo
	if b.hi < len(b.order) {
		values, turned := d.Alloc(tensor.F32, k, n), d.Alloc(tensor.F32, n, k)
		feed, inverse := d.Alloc(tensor.F32, n, len(b.order)), d.Alloc(tensor.F32, n, n)
		d.Upload(inverse, tensor.BytesOf(b.inverse()))
		d.SubtractProduct(feed, inverse, b.u.Slice(b.lo, b.hi))
		d.Values(values, b.c)
		d.AddScaled(b.c.W, values, -1)
		d.TakeT(turned, b.c.W, tensor.Tensor{})
		d.SubtractProduct(b.target, turned, feed)
		for _, t := range []tensor.Tensor{values, turned, feed, inverse} {
			d.Free(t)
		}
	}
	part := make([]byte, k*n)
	d.Download(part, b.c.Codes)
	scatter(b.m.codes, b.m.r.c.Codes.Cols, b.order[b.lo:b.hi], part)
	for _, t := range []tensor.Tensor{b.c.W, b.c.Codes, b.c.Scales} {
		d.Free(t)
	}
}

// inverse returns -U[C,C]⁻¹, transposed: row i has column i of the inverse.
func (b *columnBlock) inverse() []float32 {
	n, all := b.hi-b.lo, len(b.order)
	u := func(i, j int) float64 { return float64(b.inner[(b.lo+i)*all+b.lo+j]) }
	out := make([]float32, n*n)
	for j := range n {
		x := make([]float64, n)
		for i := j; i >= 0; i-- {
			if i == j {
				x[i] = 1
			}
			for m := i + 1; m <= j; m++ {
				x[i] -= u(i, m) * x[m]
			}
			x[i] /= u(i, i)
			out[j*n+i] = -float32(x[i])
		}
	}
	return out
}
