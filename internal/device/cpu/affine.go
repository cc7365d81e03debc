package cpu

import (
	"exl2/internal/affine"
	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// affineMatrix is an affine.Matrix with the codes of each column together.
type affineMatrix struct {
	in, out, bits int
	words         []uint32 // [out, in·bits/32]
	scales        []half.F16
	zeros         []uint8 // both [out, groups]
	group         []int32 // of each block of 32 rows
	groups        int
	perm          []int32 // or nil
	bytes         int
}

func (m *affineMatrix) In() int    { return m.in }
func (m *affineMatrix) Out() int   { return m.out }
func (m *affineMatrix) Bytes() int { return m.bytes }

// LoadAffine lays m out for products.
func (d *Device) LoadAffine(m *affine.Matrix) device.Matrix {
	q := &affineMatrix{in: m.In, out: m.Out, bits: m.Bits, groups: len(m.Rows), group: m.BlockGroups(), perm: m.Perm, bytes: m.Bytes()}
	if err := m.Check(); err != nil || !m.Fusible() {
		d.fail("LoadAffine: groups of %v rows: %w", m.Rows, err)
		return q
	}
	q.words = turn(m.Words, m.Out)
	q.scales, q.zeros = turn(m.Scales, m.Out), turn(m.Zeros, m.Out)
	return q
}

// turn returns v, whose rows have the given width, transposed.
func turn[E any](v []E, width int) []E {
	rows := len(v) / width
	out := make([]E, len(v))
	parallel.Runs(width, 64, func(lo, hi int) {
		for r := range rows {
			for c := lo; c < hi; c++ {
				out[c*rows+r] = v[r*width+c]
			}
		}
	})
	return out
}

// column stores the weights of a column, in stored order, in dst.
func (m *affineMatrix) column(dst []float32, c int) {
	words := m.words[c*m.in*m.bits/32:]
	scales, zeros := m.scales[c*m.groups:], m.zeros[c*m.groups:]
	var table [16]float32
	last := int32(-1)
	for b, g := range m.group {
		block, scale, zero := dst[b*affine.Align:(b+1)*affine.Align], scales[g].Float32(), int(zeros[g])
		if m.bits == 8 { // more codes than a group may have rows
			spread(block, words[b*8:(b+1)*8], scale, zero)
			continue
		}
		if g != last {
			tabulate(table[:1<<m.bits], scale, zero)
			last = g
		}
		look(block, words[b*m.bits:(b+1)*m.bits], m.bits, &table)
	}
}

// tabulate stores what each code stands for.
func tabulate(table []float32, scale float32, zero int) {
	for code := range table {
		table[code] = half.ToF16(scale * float32(code-zero)).Float32()
	}
}

// spread stores the weights of 32 codes of eight bits.
func spread(dst []float32, words []uint32, scale float32, zero int) {
	var narrow [affine.Align]half.F16
	for i := range dst {
		dst[i] = scale * float32(int(words[i/4]>>(i%4*8)&255)-zero)
	}
	simd.NarrowF16(narrow[:], dst)
	simd.WidenF16(dst, narrow[:])
}

// look stores the weights of 32 codes.
func look(dst []float32, words []uint32, bits int, table *[16]float32) {
	if bits == 3 {
		look3(dst, words, table)
		return
	}
	each, mask := 32/bits, uint32(1)<<bits-1
	for i, w := range words {
		part := dst[i*each : (i+1)*each]
		for k := range part {
			part[k] = table[w&mask&15]
			w >>= bits
		}
	}
}

// look3 is look for three bits, of which codes cross words.
func look3(dst []float32, words []uint32, table *[16]float32) {
	low := uint64(words[0]) | uint64(words[1])<<32
	high := uint64(words[1])>>31 | uint64(words[2])<<1 // from bit 63 on
	for k := range 21 {
		dst[k] = table[low>>(3*k)&7]
	}
	for k := 21; k < 32; k++ {
		dst[k] = table[high>>(3*k-63)&7]
	}
}

// multiply is y = x·W, without bias.
func (m *affineMatrix) multiply(d *Device, y, x tensor.Tensor) {
	in, release := rowsOf("QMatMul", x), func() {}
	if m.perm != nil {
		var sorted []float32
		sorted, release = d.borrowed(x.Rows * x.Cols)
		permuteRows(sorted, in, x.Rows, m.perm)
		in = strided{sorted, x.Cols, x.Cols}
	}
	defer release()
	out := rowsOf("QMatMul", y)
	if x.Rows > fewRows {
		d.widenedProducts(out, in, x.Rows, func(dst []float32, lo, hi int) {
			for c := lo; c < hi; c++ {
				m.column(dst[(c-lo)*m.in:(c-lo+1)*m.in], c)
			}
		})
		return
	}
	parallel.Runs(m.out, gemvSet, func(lo, hi int) {
		w, release := d.borrowed(m.in)
		defer release()
		for c := lo; c < hi; c++ {
			m.column(w, c)
			for r := range x.Rows {
				sum := out.row(r)[c : c+1]
				sum[0] = 0
				simd.Gemv(sum, in.row(r), w, m.in)
			}
		}
	})
}

// decode stores the weights, [out, in] in the source's order.
func (m *affineMatrix) decode(d *Device, dst tensor.Tensor) {
	out := elements[half.F16](dst)
	parallel.Runs(m.out, gemvSet, func(lo, hi int) {
		w, release := d.borrowed(m.in)
		defer release()
		for c := lo; c < hi; c++ {
			m.column(w, c)
			row := out[c*m.in : (c+1)*m.in]
			if m.perm == nil {
				simd.NarrowF16(row, w)
				continue
			}
			for stored, original := range m.perm {
				row[original] = half.ToF16(w[stored])
			}
		}
	})
}
