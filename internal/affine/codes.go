package affine

import (
	"exl2/internal/half"
	"exl2/internal/parallel"
)

// stripe is the columns that one goroutine works on.
const stripe = 64

// unpack stores the codes of row r, columns lo and on, of packed words with out
// columns.
func unpack(dst []uint8, words []uint32, out, bits, r, lo int) {
	word, shift := r*bits/32, r*bits%32
	mask := uint32(1)<<bits - 1
	first := words[word*out+lo:][:len(dst)]
	if shift+bits <= 32 {
		for i, w := range first {
			dst[i] = uint8(w >> shift & mask)
		}
		return
	}
	second := words[(word+1)*out+lo:][:len(dst)]
	for i, w := range first {
		dst[i] = uint8((w>>shift | second[i]<<(32-shift)) & mask)
	}
}

// pack adds codes to row r, which is zero, columns lo and on.
func pack(words []uint32, codes []uint8, out, bits, r, lo int) {
	word, shift := r*bits/32, r*bits%32
	first := words[word*out+lo:][:len(codes)]
	for i, c := range codes {
		first[i] |= uint32(c) << shift
	}
	if shift+bits > 32 {
		second := words[(word+1)*out+lo:][:len(codes)]
		for i, c := range codes {
			second[i] |= uint32(c) >> (32 - shift)
		}
	}
}

// Codes stores the codes of stored row r, columns lo and on, in dst.
func (m *Matrix) Codes(dst []uint8, r, lo int) { unpack(dst, m.Words, m.Out, m.Bits, r, lo) }

// Pack returns the words of in x out codes; row stores the codes of stored row r,
// columns lo and on, and may be called for several stripes of columns at once.
func Pack(in, out, bits int, row func(dst []uint8, r, lo int)) []uint32 {
	words := make([]uint32, in*bits/32*out)
	parallel.Runs(out, stripe, func(lo, hi int) {
		var buf [stripe]uint8
		for r := range in {
			codes := buf[:hi-lo]
			row(codes, r, lo)
			pack(words, codes, out, bits, r, lo)
		}
	})
	return words
}

// Columns returns the matrix of some of m's columns.
func (m *Matrix) Columns(list []int) *Matrix {
	part := &Matrix{In: m.In, Out: len(list), Bits: m.Bits, Rows: m.Rows, Perm: m.Perm}
	part.Words = choose(m.Words, m.Out, list)
	part.Scales = choose(m.Scales, m.Out, list)
	part.Zeros = choose(m.Zeros, m.Out, list)
	return part
}

// choose returns columns of rows of the given width.
func choose[E any](v []E, width int, list []int) []E {
	out := make([]E, 0, len(v)/width*len(list))
	for at := 0; at < len(v); at += width {
		for _, c := range list {
			out = append(out, v[at+c])
		}
	}
	return out
}

// Weights returns the weights in the source's order, [Out, In].
func (m *Matrix) Weights() []half.F16 {
	w := make([]half.F16, m.In*m.Out)
	parallel.Runs(m.Out, stripe, func(lo, hi int) {
		var codes [stripe]uint8
		var table [stripe][256]half.F16
		r := 0
		for g, n := range m.Rows {
			m.tabulate(table[:hi-lo], g, lo)
			for end := r + n; r < end; r++ {
				m.Codes(codes[:hi-lo], r, lo)
				at := r
				if m.Perm != nil {
					at = int(m.Perm[r])
				}
				for i, c := range codes[:hi-lo] {
					w[(lo+i)*m.In+at] = table[i][c]
				}
			}
		}
	})
	return w
}

// tabulate stores the weights of all codes of group g, columns lo and on.
func (m *Matrix) tabulate(table [][256]half.F16, g, lo int) {
	for i := range table {
		at := g*m.Out + lo + i
		scale, zero := m.Scales[at].Float32(), int(m.Zeros[at])
		for code := range 1 << m.Bits {
			table[i][code] = half.ToF16(scale * float32(code-zero))
		}
	}
}

// Reorder returns packed words with their rows in another order: perm is the
// original row of each.
func Reorder(words []uint32, out, bits int, perm []int32) []uint32 {
	return Pack(len(perm), out, bits, func(dst []uint8, r, lo int) { unpack(dst, words, out, bits, int(perm[r]), lo) })
}

// Along returns the codes of rows that are packed along the columns, [rows, cols],
// each row one stream of bits, the lowest first. A row fills its words.
func Along(words []uint32, rows, cols, bits int) []uint8 {
	codes := make([]uint8, rows*cols)
	width, mask := cols*bits/32, uint32(1)<<bits-1
	parallel.Runs(rows, 16, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := words[r*width:][:width]
			for c := range cols {
				word, shift := c*bits/32, c*bits%32
				v := row[word] >> shift
				if shift+bits > 32 {
					v |= row[word+1] << (32 - shift)
				}
				codes[r*cols+c] = uint8(v & mask)
			}
		}
	})
	return codes
}
