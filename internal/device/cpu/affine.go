package cpu

import (
	"exl2/internal/affine"
	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// affineMatrix is an affine.Matrix as the kernels of EXL2 like it: the codes of each
// group of rows are an EXL2 matrix with scales of 1, whose weights are codes less the
// middle one.
type affineMatrix struct {
	in, out int
	groups  []affineGroup
	perm    []int32 // or nil
}

// An affineGroup is a run of stored rows.
type affineGroup struct {
	codes     *simd.Packed
	row, rows int
	scales    []float32 // by column
	shifts    []float32 // the middle code less the zero, by column
}

func (m *affineMatrix) In() int  { return m.in }
func (m *affineMatrix) Out() int { return m.out }

// Bytes is what a product reads.
func (m *affineMatrix) Bytes() int {
	n := 4 * len(m.perm)
	for _, g := range m.groups {
		n += g.codes.Bytes() + 4*(len(g.scales)+len(g.shifts))
	}
	return n
}

// LoadAffine lays m out for products.
func (d *Device) LoadAffine(m *affine.Matrix) device.Matrix {
	q := &affineMatrix{in: m.In, out: m.Out, perm: m.Perm}
	if err := m.Check(); err != nil {
		d.fail("LoadAffine: %w", err)
		return q
	}
	padded := exl2.Pad(m.Out)
	words, ones := widened(m.Words, m.Out, padded), make([]uint32, padded/8)
	for i := range ones {
		ones[i] = 0xffffffff // s = 16: the largest scale
	}
	q.groups = make([]affineGroup, len(m.Rows))
	row := 0
	for i, rows := range m.Rows {
		part := &exl2.Matrix{
			In: rows, Out: padded, Groups: []exl2.Group{{Bits: m.Bits, Rows: rows}},
			Words: words[row*m.Bits/32*padded:], Scales: ones, ScaleMax: []half.F16{half.ToF16(1)},
		}
		p, err := simd.NewPacked(part)
		if err != nil {
			d.fail("LoadAffine: %w", err)
			return q
		}
		parallel.Runs(padded, 128, func(lo, hi int) { p.Fill(part, lo, hi) })
		q.groups[i] = affineGroup{codes: p, row: row, rows: rows, scales: make([]float32, padded), shifts: make([]float32, padded)}
		for c := range m.Out {
			at := i*m.Out + c
			q.groups[i].scales[c], q.groups[i].shifts[c] = m.Scales[at].Float32(), float32(int(1)<<(m.Bits-1)-int(m.Zeros[at]))
		}
		row += rows
	}
	return q
}

// widened returns rows of the given width with zeros behind them.
func widened(v []uint32, width, to int) []uint32 {
	if width == to {
		return v
	}
	out := make([]uint32, len(v)/width*to)
	for r := range len(v) / width {
		copy(out[r*to:], v[r*width:(r+1)*width])
	}
	return out
}

// multiply multiplies rows of x.
func (m *affineMatrix) multiply(d *Device, y, x strided, rows int) {
	if m.perm != nil {
		sorted, release := d.borrowed(rows * m.in)
		defer release()
		permuteRows(sorted, x, rows, m.perm)
		x = strided{sorted, m.in, m.in}
	}
	if rows <= fewQRows {
		m.products(y, x, rows)
		return
	}
	d.widenedProducts(y, x, rows, func(dst []float32, lo, hi int) { m.weights(d, dst, lo, hi) })
}

// products multiplies few rows, one at a time, by the packed columns: group by
// group, scale·(Σ x·(code - middle) + (middle - zero)·Σ x). Weights are not rounded
// to fp16.
func (m *affineMatrix) products(y, x strided, rows int) {
	for r := range rows {
		sums, in, out := m.sums(x.row(r)), x.row(r), y.row(r)
		parallel.Runs(m.out, gemvSet, func(lo, hi int) {
			var total, part [gemvSet]float32
			n := wholeQuads(hi - lo)
			for i := range m.groups {
				g := &m.groups[i]
				clear(part[:n])
				g.codes.Gemv(part[:n], in[g.row:g.row+g.rows], lo, lo+n)
				scales, shifts, sum := g.scales[lo:lo+n], g.shifts[lo:lo+n], sums[i]
				for c, v := range part[:n] {
					total[c] += scales[c] * (v + shifts[c]*sum)
				}
			}
			copy(out[lo:hi], total[:])
		})
	}
}

// sums adds up the inputs of each group.
func (m *affineMatrix) sums(x []float32) []float32 {
	sums := make([]float32, len(m.groups))
	for i, g := range m.groups {
		sum := 0.0
		for _, v := range x[g.row : g.row+g.rows] {
			sum += float64(v)
		}
		sums[i] = float32(sum)
	}
	return sums
}

// weights stores columns lo to hi, lo a multiple of 4, in dst, rows in stored order:
// the transposed matrix, row by row.
func (m *affineMatrix) weights(d *Device, dst []float32, lo, hi int) {
	for i := range m.groups {
		g := &m.groups[i]
		n := wholeQuads(hi - lo)
		codes, release := d.borrowed(n * g.rows)
		narrow := make([]half.F16, g.rows)
		g.codes.Decode(codes, lo, lo+n)
		for c := range hi - lo {
			column, to := codes[c*g.rows:(c+1)*g.rows], dst[c*m.in+g.row:][:g.rows]
			scale, shift := g.scales[lo+c], g.shifts[lo+c]
			for k, v := range column {
				to[k] = scale * (v + shift)
			}
			simd.NarrowF16(narrow, to)
			simd.WidenF16(to, narrow)
		}
		release()
	}
}

// decode stores the weights, [out, in] in the source's order.
func (m *affineMatrix) decode(d *Device, dst tensor.Tensor) {
	out := elements[half.F16](dst)
	parallel.Runs(m.out, widenTile, func(lo, hi int) {
		w, release := d.borrowed((hi - lo) * m.in)
		defer release()
		m.weights(d, w, lo, hi)
		for c := lo; c < hi; c++ {
			column, row := w[(c-lo)*m.in:(c-lo+1)*m.in], out[c*m.in:(c+1)*m.in]
			if m.perm == nil {
				simd.NarrowF16(row, column)
				continue
			}
			for stored, original := range m.perm {
				row[original] = half.ToF16(column[stored])
			}
		}
	})
}
