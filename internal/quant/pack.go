package quant

import (
	"cmp"
	"fmt"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// Matrix makes a matrix for products of the result, where it is.
func (r *Result) Matrix() device.Matrix {
	r.pack()
	return r.f.dev.Assemble(r.c, r.words, r.scales, r.f.perm, r.out)
}

// pack packs codes and scales, once.
func (r *Result) pack() {
	if !r.words.Nil() {
		return
	}
	last, n := r.c.Groups[len(r.c.Groups)-1], r.c.Codes.Cols
	r.words = r.f.dev.Alloc(tensor.I32, last.Word+last.Rows*last.Bits/32, n)
	r.scales = r.f.dev.Alloc(tensor.I32, len(r.c.Groups), n/8)
	r.f.dev.Pack(r.words, r.scales, r.c)
}

// A Packing is packed matrices on their way to the host.
type Packing struct {
	dev   device.Quantize
	list  []packed
	check *Scalars // how far what they decode to is from their codes
	after *device.Mark
}

// packed is one of them. Its tensors are the packing's.
type packed struct {
	matrix                 *exl2.Matrix
	words, scales, largest tensor.Tensor
}

// NewPacking takes packed matrices of one device, which are decoded again there and compared
// with their codes; matrices are what Matrix has made of the list. They are downloaded when all is
// done, or, with a mark of a device.Fetcher, beside what is issued from now on.
func NewPacking(list []*Result, matrices []device.Matrix, after *device.Mark) *Packing {
	tiles := 0
	for _, r := range list {
		tiles += len(r.tiles())
	}
	d := list[0].f.dev
	p := &Packing{dev: d, check: NewScalars(d, tiles), after: after}
	rows := list[0].f.stored()
	defer d.Free(rows)
	for i, r := range list {
		r.verify(matrices[i], rows, p.check)
		p.list = append(p.list, r.leave())
	}
	if after != nil {
		d.(device.Fetcher).Set(*after)
	}
	return p
}

// leave gives away what is packed.
func (r *Result) leave() packed {
	r.pack()
	p := packed{words: r.words, scales: r.scales, largest: r.c.Largest, matrix: &exl2.Matrix{
		In: r.f.k, Out: r.c.Codes.Cols, Groups: r.c.Groups, InvPerm: exl2.Inverse(r.f.Perm),
		Scales: make([]uint32, r.scales.Rows*r.scales.Cols), ScaleMax: make([]half.F16, len(r.c.Groups)),
	}}
	r.words, r.scales, r.c.Largest = tensor.Tensor{}, tensor.Tensor{}, tensor.Tensor{}
	return p
}

// Download brings the matrices to the host, in memory of the stock, as far as that goes.
func (p *Packing) Download(stock *Stock) ([]*exl2.Matrix, error) {
	fetch := p.dev.Download
	if p.after != nil {
		fetch = func(dst []byte, src tensor.Tensor) { p.dev.(device.Fetcher).Fetch(dst, src, *p.after) }
	}
	differences := make([]float64, p.check.used)
	fetch(tensor.BytesOf(differences), p.check.all)
	out := make([]*exl2.Matrix, len(p.list))
	for i, x := range p.list {
		m := x.matrix
		m.Words = stock.take(x.words.Rows * x.words.Cols)
		fetch(tensor.BytesOf(m.Words), x.words)
		fetch(tensor.BytesOf(m.Scales), x.scales)
		fetch(tensor.BytesOf(m.ScaleMax), x.largest)
		out[i] = m
	}
	p.Free()
	if err := verified(differences, out); err != nil {
		return nil, cmp.Or(p.dev.Sync(), err) // what has failed before
	}
	return out, nil
}

// verified tells of matrices that are not as they should be.
func verified(differences []float64, list []*exl2.Matrix) error {
	for _, v := range differences {
		if v != 0 {
			return fmt.Errorf("packed matrix: it does not decode to what was packed (squared difference %v)", v)
		}
	}
	for _, m := range list {
		if err := m.Check(); err != nil {
			return fmt.Errorf("packed matrix: %w", err)
		}
	}
	return nil
}

// Free frees what has not been downloaded.
func (p *Packing) Free() {
	for _, x := range p.list {
		for _, t := range []tensor.Tensor{x.words, x.scales, x.largest} {
			p.dev.Free(t)
		}
	}
	p.check.Free()
	p.list, p.check.all = nil, tensor.Tensor{}
}

// VerifiedRows is about how many rows of n columns are decoded and compared at a time.
func VerifiedRows(n int) int { return max(exl2.Align, 1<<25/n) }

// tiles cuts the codes into parts of whole groups.
func (r *Result) tiles() (list []device.Coding) {
	groups := r.c.Groups
	for first := 0; first < len(groups); {
		row, end := groups[first].Row, first
		for end < len(groups) && (end == first || groups[end].Row+groups[end].Rows-row <= VerifiedRows(r.c.Codes.Cols)) {
			end++
		}
		last := groups[end-1].Row + groups[end-1].Rows
		list = append(list, device.Coding{
			Groups: groups[first:end], Codes: r.c.Codes.Slice(row, last), Scales: r.c.Scales.Slice(first, end),
			Largest: r.c.Largest.Reshape(len(groups), 1).Slice(first, end),
		})
		first = end
	}
	return list
}

// stored returns the numbers of stored rows, I32 [1, k].
func (f *Factor) stored() tensor.Tensor {
	rows := make([]int32, f.k)
	for i := range rows {
		rows[i] = int32(i)
	}
	t := f.dev.Alloc(tensor.I32, 1, f.k)
	f.dev.Upload(t, tensor.BytesOf(rows))
	return t
}

// verify decodes m and leaves how far its parts are from the values of the codes; stored is
// the numbers of stored rows.
func (r *Result) verify(m device.Matrix, stored tensor.Tensor, s *Scalars) {
	d := r.f.dev
	decoded := device.Blank(d, tensor.F16, r.out, r.f.k)
	defer d.Free(decoded)
	d.DecodeStored(decoded, m)
	for _, c := range r.tiles() {
		rows, first := c.Codes.Rows, c.Groups[0].Row
		got, want := device.Blank(d, tensor.F32, rows, c.Codes.Cols), device.Blank(d, tensor.F32, rows, c.Codes.Cols)
		d.TakeT(got, decoded, stored.Columns(first, first+rows))
		d.Values(want, c)
		// Columns that pad the matrix are not decoded.
		a, b := got.Columns(0, r.out), want.Columns(0, r.out)
		d.AddScaled(a, b, -1)
		d.Dot(s.Take(1), a, a)
		d.Free(got)
		d.Free(want)
	}
}
