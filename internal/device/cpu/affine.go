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

// affineMatrix is an affine.Matrix as the kernels of EXL2 like it: the codes of a run
// of rows are an EXL2 matrix with scales of 1, whose weights are codes less the middle
// one.
type affineMatrix struct {
	in, out int
	runs    []affineRun
	perm    []int32 // or nil
}

// An affineRun is stored rows: a group, or as many small ones as fill what the kernels
// take at least.
type affineRun struct {
	codes     *simd.Packed
	row, rows int
	groups    []affineGroup
}

// An affineGroup is a group of rows, counted from its run's first.
type affineGroup struct {
	lo, hi int
	scales []float32 // by column
	shifts []float32 // the middle code less the zero, by column
}

// leastRun is the rows whose codes the kernels keep together, whole or not.
const leastRun = 128

func (m *affineMatrix) In() int  { return m.in }
func (m *affineMatrix) Out() int { return m.out }

// Bytes is what a product reads.
func (m *affineMatrix) Bytes() int {
	n := 4 * len(m.perm)
	for _, r := range m.runs {
		n += r.codes.Bytes()
		for _, g := range r.groups {
			n += 4 * (len(g.scales) + len(g.shifts))
		}
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
	run := affineRun{}
	for i, rows := range m.Rows {
		g := affineGroup{lo: run.rows, hi: run.rows + rows, scales: make([]float32, padded), shifts: make([]float32, padded)}
		for c := range m.Out {
			at := i*m.Out + c
			g.scales[c], g.shifts[c] = m.Scales[at].Float32(), float32(int(1)<<(m.Bits-1)-int(m.Zeros[at]))
		}
		run.groups, run.rows = append(run.groups, g), g.hi
		if run.rows >= leastRun || i+1 == len(m.Rows) {
			q.runs = append(q.runs, run)
			run = affineRun{row: run.row + run.rows}
		}
	}
	words := affine.Widened(m.Words, m.Out, padded)
	for i := range q.runs {
		if err := q.runs[i].load(words, padded, m.Bits); err != nil {
			d.fail("LoadAffine: %w", err)
		}
	}
	return q
}

// load takes the run's codes out of the words of all rows.
func (r *affineRun) load(words []uint32, out, bits int) (err error) {
	ones := make([]uint32, out/8)
	for i := range ones {
		ones[i] = 0xffffffff // s = 16: the largest scale
	}
	m := &exl2.Matrix{
		In: r.rows, Out: out, Groups: []exl2.Group{{Bits: bits, Rows: r.rows}},
		Words: words[r.row*bits/32*out:], Scales: ones, ScaleMax: []half.F16{half.ToF16(1)},
	}
	if r.codes, err = simd.NewPacked(m); err == nil {
		parallel.Runs(out, 128, func(lo, hi int) { r.codes.Fill(m, lo, hi) })
	}
	return err
}

func (m *affineMatrix) order() []int32 { return m.perm }

func (m *affineMatrix) multiply(d *Device, y, x strided, rows int) {
	if m.perm != nil {
		sorted, release := d.borrowed(rows * m.in)
		defer release()
		permuteRows(sorted, x, rows, m.perm)
		x = strided{sorted, m.in, m.in}
	}
	if rows > fewQRows {
		d.widenedProducts(y, x, rows, func(dst []float32, lo, hi int) { m.weights(d, dst, lo, hi) })
		return
	}
	for r := range rows {
		parallel.Runs(m.out, gemvSet, func(lo, hi int) { m.row(y.row(r)[lo:hi], x.row(r), lo) })
	}
}

func (m *affineMatrix) columns(y strided, x []float32, rows, lo, hi int) {
	for r := range rows {
		m.row(y.row(r)[lo:hi], x[r*m.in:(r+1)*m.in], lo)
	}
}

// row multiplies a row of x by columns lo and on: group by group, scale·(Σ x·(code -
// middle) + (middle - zero)·Σ x). Weights are not rounded to fp16.
func (m *affineMatrix) row(y, x []float32, lo int) {
	var total, part [gemvSet]float32
	n := wholeQuads(len(y))
	for i := range m.runs {
		r := &m.runs[i]
		in := x[r.row : r.row+r.rows]
		for _, g := range r.groups {
			own, sum := g.of(in, len(r.groups) > 1), float32(0)
			for _, v := range in[g.lo:g.hi] {
				sum += v
			}
			clear(part[:n])
			r.codes.Gemv(part[:n], own, lo, lo+n)
			scales, shifts := g.scales[lo:lo+n], g.shifts[lo:lo+n]
			for c, v := range part[:n] {
				total[c] += scales[c] * (v + shifts[c]*sum)
			}
		}
	}
	copy(y, total[:])
}

// of returns the inputs of a run with zeros in the places of other groups, if there
// are some.
func (g *affineGroup) of(x []float32, others bool) []float32 {
	if !others {
		return x
	}
	own := make([]float32, len(x))
	copy(own[g.lo:g.hi], x[g.lo:g.hi])
	return own
}

// weights stores columns lo to hi, lo a multiple of 4, in dst, rows in stored order:
// the transposed matrix, row by row.
func (m *affineMatrix) weights(d *Device, dst []float32, lo, hi int) {
	n := wholeQuads(hi - lo)
	for i := range m.runs {
		r := &m.runs[i]
		codes, release := d.borrowed(n * r.rows)
		narrow := make([]half.F16, r.rows)
		r.codes.Decode(codes, lo, lo+n)
		for c := range hi - lo {
			column, to := codes[c*r.rows:(c+1)*r.rows], dst[c*m.in+r.row:][:r.rows]
			for _, g := range r.groups {
				scale, shift := g.scales[lo+c], g.shifts[lo+c]
				for k := g.lo; k < g.hi; k++ {
					to[k] = scale * (column[k] + shift)
				}
			}
			simd.NarrowF16(narrow, to)
			simd.WidenF16(to, narrow)
		}
		release()
	}
}

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
