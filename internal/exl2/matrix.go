package exl2

import (
	"fmt"
	"slices"

	"exl2/internal/half"
	"exl2/internal/tensor"
)

// A Matrix is a quantized weight as it lies in a file.
type Matrix struct {
	In, Out int // Out includes the padding to a multiple of Align

	Groups   []Group
	Words    []uint32   // [rows of words, Out]: packed codes
	Scales   []uint32   // [len(Groups), Out/8]: 4-bit codes s-1 with s in 1..16
	ScaleMax []half.F16 // [len(Groups)]: the group's largest scale
	InvPerm  []int32    // [In]: place of each original row in the stored order
}

// Perm returns the original row of every stored row.
func (m *Matrix) Perm() []int32 { return Inverse(m.InvPerm) }

// Bits returns the size of m in bits.
func (m *Matrix) Bits() int { return size(m.Groups, m.In, m.Out) }

// BitsPerWeight returns the mean storage of a weight of m, of which out columns are
// weights, the padding behind them counting as what they cost.
func (m *Matrix) BitsPerWeight(out int) float64 {
	return float64(m.Bits()) / float64(m.In) / float64(out)
}

// Recipe describes how m is divided among bit widths, its groups being taken
// as large as the first one of each width.
func (m *Matrix) Recipe() Recipe {
	var r Recipe
	for _, g := range m.Groups {
		if n := len(r); n == 0 || r[n-1].Bits != g.Bits {
			r = append(r, Part{Bits: g.Bits, Group: g.Rows})
		}
		r[len(r)-1].Share += float64(g.Rows)
	}
	for i := range r {
		r[i].Share = float64(int(r[i].Share/float64(m.In)*10000+0.5)) / 10000
	}
	return r
}

// Check reports the first inconsistency between the parts of m.
func (m *Matrix) Check() error {
	if m.In <= 0 || m.In%Align != 0 || m.In > 1<<16 {
		return fmt.Errorf("%d rows, want a multiple of %d up to %d", m.In, Align, 1<<16)
	}
	if m.Out <= 0 || m.Out%Align != 0 {
		return fmt.Errorf("%d columns, want a multiple of %d", m.Out, Align)
	}
	words, err := m.checkGroups()
	if err != nil {
		return err
	}
	if len(m.Words) != words*m.Out {
		return fmt.Errorf("%d packed words, want %d x %d", len(m.Words), words, m.Out)
	}
	if want := len(m.Groups) * m.Out / 8; len(m.Scales) != want {
		return fmt.Errorf("%d words of scales, want %d", len(m.Scales), want)
	}
	if len(m.ScaleMax) != len(m.Groups) {
		return fmt.Errorf("%d largest scales, want one for each of %d groups", len(m.ScaleMax), len(m.Groups))
	}
	if i := slices.IndexFunc(m.ScaleMax, notFinite); i >= 0 {
		return fmt.Errorf("the largest scale of group %d is %v: the file is damaged", i, m.ScaleMax[i].Float32())
	}
	return tensor.CheckPermutation(m.InvPerm, m.In)
}

// notFinite reports whether h is infinite or NaN.
func notFinite(h half.F16) bool {
	const exponent = 0x7c00 // all ones in those
	return h&exponent == exponent
}

// checkGroups verifies that the groups cover In rows, and returns the rows of
// words that they take.
func (m *Matrix) checkGroups() (words int, err error) {
	row := 0
	for i, g := range m.Groups {
		if g.Row != row || g.Word != words {
			return 0, fmt.Errorf("group %d is at row %d, word %d, want row %d, word %d", i, g.Row, g.Word, row, words)
		}
		if g.Rows <= 0 || g.Rows%Align != 0 {
			return 0, fmt.Errorf("group %d has %d rows, want a multiple of %d", i, g.Rows, Align)
		}
		if !validWidth(g.Bits) {
			return 0, fmt.Errorf("group %d has %d bits, want one of %v", i, g.Bits, Widths)
		}
		row += g.Rows
		words += g.Rows * g.Bits / 32
	}
	if row != m.In {
		return 0, fmt.Errorf("groups cover %d rows, want %d", row, m.In)
	}
	return words, nil
}

func validWidth(bits int) bool {
	switch bits {
	case 2, 3, 4, 5, 6, 8:
		return true
	}
	return false
}

// Inverse returns the permutation that undoes perm.
func Inverse(perm []int32) []int32 {
	inv := make([]int32, len(perm))
	for i, p := range perm {
		inv[p] = int32(i)
	}
	return inv
}
