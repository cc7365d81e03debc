package quant

import (
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

// Download brings packed matrices of one device to the host, after all were decoded
// again there and compared with their codes; matrices are what Matrix has made of
// the list. They are in memory of the stock, as far as that goes.
func Download(list []*Result, matrices []device.Matrix, stock *Stock) ([]*exl2.Matrix, error) {
	tiles := 0
	for _, r := range list {
		tiles += len(r.tiles())
	}
	s, rows := NewScalars(list[0].f.dev, tiles), list[0].f.stored()
	defer func() { s.Free(); list[0].f.dev.Free(rows) }()
	for i, r := range list {
		r.verify(matrices[i], rows, s)
	}
	if err := s.Fetch(); err != nil {
		return nil, err
	}
	for _, v := range s.All() {
		if v != 0 {
			return nil, fmt.Errorf("packed matrix: it does not decode to what was packed (squared difference %v)", v)
		}
	}
	out := make([]*exl2.Matrix, len(list))
	for i, r := range list {
		out[i] = r.download(stock)
	}
	if err := list[0].f.dev.Sync(); err != nil {
		return nil, err
	}
	for _, m := range out {
		if err := m.Check(); err != nil {
			return nil, fmt.Errorf("packed matrix: %w", err)
		}
	}
	return out, nil
}

func (r *Result) download(stock *Stock) *exl2.Matrix {
	r.pack()
	d := r.f.dev
	out := &exl2.Matrix{
		In: r.f.k, Out: r.c.Codes.Cols, Groups: r.c.Groups, InvPerm: exl2.Inverse(r.f.Perm),
		Words: stock.take(r.words.Rows * r.words.Cols), Scales: make([]uint32, r.scales.Rows*r.scales.Cols),
		ScaleMax: make([]half.F16, len(r.c.Groups)),
	}
	d.Download(tensor.BytesOf(out.Words), r.words)
	d.Download(tensor.BytesOf(out.Scales), r.scales)
	d.Download(tensor.BytesOf(out.ScaleMax), r.c.Largest)
	return out
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
	decoded := d.Alloc(tensor.F16, r.out, r.f.k)
	defer d.Free(decoded)
	d.DecodeStored(decoded, m)
	for _, c := range r.tiles() {
		rows, first := c.Codes.Rows, c.Groups[0].Row
		got, want := d.Alloc(tensor.F32, rows, c.Codes.Cols), d.Alloc(tensor.F32, rows, c.Codes.Cols)
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
