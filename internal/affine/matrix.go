// Package affine is matrices of codes with a scale and a zero for each column of a
// group of rows, which is what GPTQ, AWQ and their like make:
//
//	weight = fp16(scale · (code - zero))
//
// W is [In, Out], as in package exl2: the transpose of a Hugging Face weight. Rows
// are stored in an order that has the rows of each group together.
package affine

import (
	"fmt"
	"math/bits"
	"slices"

	"exl2/internal/half"
	"exl2/internal/tensor"
)

// Widths are the bits that a code can have.
var Widths = []int{2, 3, 4, 8}

// A Matrix is packed codes and what they stand for.
type Matrix struct {
	In, Out int
	Bits    int
	Rows    []int      // of each group, in stored order
	Words   []uint32   // [In·Bits/32, Out]: every column's codes, down the stored rows, lowest bits first
	Scales  []half.F16 // [groups, Out]
	Zeros   []uint8    // [groups, Out]: codes that stand for 0
	Perm    []int32    // [In]: original row of every stored row; nil if they are the same
}

// Check reports the first inconsistency between the parts of m.
func (m *Matrix) Check() error {
	if !slices.Contains(Widths, m.Bits) {
		return fmt.Errorf("%d bits, want one of %v", m.Bits, Widths)
	}
	if m.In <= 0 || m.Out <= 0 || m.In*m.Bits%32 != 0 {
		return fmt.Errorf("%d rows of %d columns of %d bits, want rows that fill words of 32", m.In, m.Out, m.Bits)
	}
	if want := m.In * m.Bits / 32 * m.Out; len(m.Words) != want {
		return fmt.Errorf("%d packed words, want %d", len(m.Words), want)
	}
	sum := 0
	for i, n := range m.Rows {
		if n <= 0 || n > m.In-sum {
			return fmt.Errorf("group %d has %d rows after row %d of %d", i, n, sum, m.In)
		}
		sum += n
	}
	if sum != m.In {
		return fmt.Errorf("groups cover %d rows, want %d", sum, m.In)
	}
	if want := len(m.Rows) * m.Out; len(m.Scales) != want || len(m.Zeros) != want {
		return fmt.Errorf("%d scales and %d zeros, want %d", len(m.Scales), len(m.Zeros), want)
	}
	if err := m.checkScales(); err != nil || m.Perm == nil {
		return err
	}
	return tensor.CheckPermutation(m.Perm, m.In)
}

// checkScales refuses scales with which fp16 does not hold all weights.
func (m *Matrix) checkScales() error {
	most := float32(half.MaxF16) / float32(int(1)<<m.Bits-1)
	for i, s := range m.Scales {
		if v := s.Float32(); !(v >= -most && v <= most) {
			return fmt.Errorf("the scale of group %d, column %d is %v: the file is damaged", i/m.Out, i%m.Out, v)
		}
	}
	return nil
}

// Align is what the rows of groups must be a multiple of for products of packed
// codes, and what devices round columns up to.
const Align = 32

// Fusible reports whether devices can multiply by the packed codes: groups end
// where blocks of 32 rows do.
func (m *Matrix) Fusible() bool {
	return !slices.ContainsFunc(m.Rows, func(n int) bool { return n%Align != 0 })
}

// unit is the rows that lie together in a device's memory, the last ones filled up.
const unit = 128

// Size returns the bytes that out columns of a fusible matrix take in a device's memory:
// codes, scales, zeros, and the order of rows if it has one.
func (m *Matrix) Size(out int) int {
	_, groups := m.Regular()
	out = (out + Align - 1) / Align * Align
	n := (m.In+unit-1)/unit*unit*out*m.Bits/8 + len(groups)*out*3
	if m.Perm != nil {
		n += 4 * m.In
	}
	return n
}

// Bytes returns what m takes, as Size says.
func (m *Matrix) Bytes() int { return m.Size(m.Out) }

// Regular returns the groups that a device has: of 2^shift blocks of 32 rows each, the
// last one perhaps less, and for each the group of m that it is, or is a part of.
func (m *Matrix) Regular() (shift int, groups []int) {
	blocks, row := m.In/Align, 0
	shift = bits.Len(uint(blocks))
	for _, n := range m.Rows[:len(m.Rows)-1] {
		row += n
		shift = min(shift, bits.TrailingZeros(uint(row/Align)))
	}
	g, end := 0, m.Rows[0]
	for b := 0; b < blocks; b += 1 << shift {
		for b*Align >= end {
			g++
			end += m.Rows[g]
		}
		groups = append(groups, g)
	}
	return shift, groups
}

// Widened returns rows of words, of the given width, with zeros behind each of them.
func Widened(v []uint32, width, to int) []uint32 {
	if width == to {
		return v
	}
	out := make([]uint32, len(v)/width*to)
	for r := range len(v) / width {
		copy(out[r*to:], v[r*width:(r+1)*width])
	}
	return out
}
