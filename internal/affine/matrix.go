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

// Size returns the bytes of a fusible matrix in a device's memory: codes, scales,
// zeros, the group of each block of rows, and the order of rows if it has one.
func Size(in, out, bits, groups int, ordered bool) int {
	out = (out + Align - 1) / Align * Align
	n := in*out*bits/8 + groups*out*3 + in/Align*4
	if ordered {
		n += 4 * in
	}
	return n
}

// Bytes returns what m takes, as Size says.
func (m *Matrix) Bytes() int { return Size(m.In, m.Out, m.Bits, len(m.Rows), m.Perm != nil) }

// BlockGroups returns the group of every block of 32 stored rows.
func (m *Matrix) BlockGroups() []int32 {
	list := make([]int32, 0, m.In/Align)
	for g, n := range m.Rows {
		for range n / Align {
			list = append(list, int32(g))
		}
	}
	return list
}
