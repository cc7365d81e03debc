package exl2

import "exl2/internal/half"

// The codes of a column within a group form one stream of bits, code after
// code down the rows, least significant bit first, cut into words of 32.

// packColumn stores the codes of one column of a group. codes and words are
// strided: element i of the column is codes[i*stride].
func packColumn(words []uint32, codes []uint8, stride, rows, bits int) {
	var acc uint64
	have, w := 0, 0
	for r := range rows {
		acc |= uint64(codes[r*stride]) << have
		if have += bits; have >= 32 {
			words[w*stride] = uint32(acc)
			acc >>= 32
			have -= 32
			w++
		}
	}
}

// PackGroup stores the codes [g.Rows, out] of a group as words
// [g.Rows*g.Bits/32, out].
func PackGroup(words []uint32, codes []uint8, g Group, out int) {
	for c := range out {
		packColumn(words[c:], codes[c:], out, g.Rows, g.Bits)
	}
}

// PackScales stores the scale codes s-1 of a group's columns as words of eight.
func PackScales(words []uint32, scales []uint8) {
	for i := range len(scales) / 8 {
		words[i] = 0
		for c, s := range scales[i*8 : i*8+8] {
			words[i] |= uint32(s) << (c * 4)
		}
	}
}

// Codes stores the codes of stored row r, columns lo to hi, in dst.
func (m *Matrix) Codes(dst []uint8, g Group, r, lo, hi int) {
	bit := (r - g.Row) * g.Bits
	word, shift := g.Word+bit/32, bit%32
	mask := uint32(1)<<g.Bits - 1
	first := m.Words[word*m.Out+lo : word*m.Out+hi]
	dst = dst[:len(first)]
	if shift+g.Bits <= 32 {
		for i, w := range first {
			dst[i] = uint8(w >> shift & mask)
		}
		return
	}
	second := m.Words[(word+1)*m.Out+lo : (word+1)*m.Out+hi]
	for i, w := range first {
		dst[i] = uint8((w>>shift | second[i]<<(32-shift)) & mask)
	}
}

// scaleUnit is 1/256 as fp16: ScaleMax times it is the scale of s = 1.
const scaleUnit half.F16 = 0x1c00

// ScaleTable returns the sixteen scales that a group with the given largest
// scale can use, in the format's fp16 steps: fp16(s²)·fp16(max/256).
func ScaleTable(largest half.F16) (t [16]half.F16) {
	unit := half.Mul(largest, scaleUnit)
	for i := range t {
		t[i] = half.Mul(half.ToF16(float32((i+1)*(i+1))), unit)
	}
	return t
}

// Scale returns the 4-bit scale code of group g and column c; s is one more.
func (m *Matrix) Scale(g, c int) int {
	return int(m.Scales[g*(m.Out/8)+c/8] >> (c % 8 * 4) & 15)
}

// Value returns the weight that a code stands for, in the format's fp16 steps.
func Value(code uint8, bits int, scale half.F16) half.F16 {
	return half.Mul(half.ToF16(float32(int(code)-1<<(bits-1))), scale)
}

// Decode returns the weights of m, [In, Out], rows in stored order.
func (m *Matrix) Decode() []half.F16 {
	w := make([]half.F16, m.In*m.Out)
	codes := make([]uint8, m.Out)
	for i, g := range m.Groups {
		values := groupValues(g.Bits, m.ScaleMax[i])
		for r := g.Row; r < g.Row+g.Rows; r++ {
			m.Codes(codes, g, r, 0, m.Out)
			row := w[r*m.Out : (r+1)*m.Out]
			for c, code := range codes {
				row[c] = values[m.Scale(i, c)][code]
			}
		}
	}
	return w
}

// groupValues tabulates Value for every scale and code of a group.
func groupValues(bits int, largest half.F16) *[16][256]half.F16 {
	t := new([16][256]half.F16)
	for s, scale := range ScaleTable(largest) {
		for code := range 1 << bits {
			t[s][code] = Value(uint8(code), bits, scale)
		}
	}
	return t
}

// Quantized is what a quantizer produces for one matrix, before packing.
type Quantized struct {
	In, Out  int        // Out already padded
	Groups   []Group    // as Recipe.Groups cuts them
	Codes    []uint8    // [In, Out], stored order
	Scales   []uint8    // [len(Groups), Out]: s-1
	ScaleMax []half.F16 // [len(Groups)]
	Perm     []int32    // [In]: original row of every stored row
}

// Pack turns codes into a Matrix.
func (q *Quantized) Pack() *Matrix {
	m := &Matrix{In: q.In, Out: q.Out, Groups: q.Groups, ScaleMax: q.ScaleMax}
	words := 0
	for _, g := range q.Groups {
		words += g.Rows * g.Bits / 32
	}
	m.Words = make([]uint32, words*q.Out)
	m.Scales = make([]uint32, len(q.Groups)*q.Out/8)
	for i, g := range q.Groups {
		PackGroup(m.Words[g.Word*q.Out:], q.Codes[g.Row*q.Out:], g, q.Out)
		PackScales(m.Scales[i*(q.Out/8):], q.Scales[i*q.Out:(i+1)*q.Out])
	}
	m.InvPerm = Inverse(q.Perm)
	return m
}
