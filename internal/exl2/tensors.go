package exl2

import (
	"encoding/binary"
	"fmt"
	"strings"

	"exl2/internal/half"
	"exl2/internal/tensor"
)

// The suffixes of the five tensors of a quantized matrix, after "<key>.".
const (
	SuffixWords    = "q_weight"
	SuffixScales   = "q_scale"
	SuffixScaleMax = "q_scale_max"
	SuffixGroups   = "q_groups"
	SuffixInvPerm  = "q_invperm"
)

// IsCodes reports whether a tensor of the given name is the packed codes of a
// quantized matrix.
func IsCodes(name string) bool { return strings.HasSuffix(name, "."+SuffixWords) }

// A Tensor is one of the five tensors of a matrix as a file holds it.
type Tensor struct {
	Suffix string
	DType  string // safetensors name: I32, I16 or F16
	Shape  []int
	Data   []byte // little-endian
}

// dtypes says what type and how many dimensions each tensor must have.
var dtypes = map[string]struct {
	dtype string
	dims  int
}{
	SuffixWords: {"I32", 2}, SuffixScales: {"I32", 2}, SuffixScaleMax: {"F16", 1},
	SuffixGroups: {"I16", 1}, SuffixInvPerm: {"I32", 1},
}

// Parse assembles a matrix from its tensors, which get looks up by suffix, and
// checks it. The matrix shares their memory where alignment allows.
func Parse(get func(suffix string) (Tensor, error)) (*Matrix, error) {
	var t [5]Tensor
	for i, s := range []string{SuffixWords, SuffixScales, SuffixScaleMax, SuffixGroups, SuffixInvPerm} {
		var err error
		if t[i], err = get(s); err != nil {
			return nil, err
		}
		want := dtypes[s]
		if t[i].DType != want.dtype || len(t[i].Shape) != want.dims {
			return nil, fmt.Errorf("%s is %s %v, want %s of %d dimensions", s, t[i].DType, t[i].Shape, want.dtype, want.dims)
		}
	}
	m := &Matrix{
		In: t[4].Shape[0], Out: t[0].Shape[1],
		Words: tensor.View[uint32](t[0].Data), Scales: tensor.View[uint32](t[1].Data),
		ScaleMax: tensor.View[half.F16](t[2].Data), InvPerm: tensor.View[int32](t[4].Data),
	}
	var err error
	if m.Groups, err = parseGroups(t[3].Data, m.In, t[0].Shape[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", SuffixGroups, err)
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	if s := t[1].Shape; s[0] != len(m.Groups) {
		return nil, fmt.Errorf("%s has %d rows, want %d", SuffixScales, s[0], len(m.Groups))
	}
	return m, nil
}

// parseGroups reads pairs of bits and first word row. The rows of a group
// follow from the words up to the next one; the last group ends at row in.
func parseGroups(data []byte, in, words int) ([]Group, error) {
	table := tensor.View[uint16](data)
	if len(table) == 0 || len(table)%2 != 0 {
		return nil, fmt.Errorf("%d entries, want pairs", len(table))
	}
	groups := make([]Group, len(table)/2)
	row := 0
	for i := range groups {
		g := Group{Bits: int(table[2*i]), Row: row, Word: int(table[2*i+1])}
		if !validWidth(g.Bits) {
			return nil, fmt.Errorf("group %d has %d bits, want one of %v", i, g.Bits, Widths)
		}
		next := words
		if i+1 < len(groups) {
			next = int(table[2*i+3])
		}
		g.Rows = (next - g.Word) * 32 / g.Bits
		if i+1 == len(groups) {
			g.Rows = in - row
		}
		if g.Rows <= 0 || row+g.Rows > in {
			return nil, fmt.Errorf("group %d has %d rows after row %d of %d", i, g.Rows, row, in)
		}
		groups[i] = g
		row += g.Rows
	}
	return groups, nil
}

// Shapes returns the five tensors, without data, of a matrix of so many rows and columns.
func Shapes(in, out int, groups []Group) []Tensor {
	last := groups[len(groups)-1]
	return []Tensor{
		{Suffix: SuffixInvPerm, DType: "I32", Shape: []int{in}},
		{Suffix: SuffixScales, DType: "I32", Shape: []int{len(groups), out / 8}},
		{Suffix: SuffixWords, DType: "I32", Shape: []int{last.Word + last.Rows*last.Bits/32, out}},
		{Suffix: SuffixGroups, DType: "I16", Shape: []int{2 * len(groups)}},
		{Suffix: SuffixScaleMax, DType: "F16", Shape: []int{len(groups)}},
	}
}

// Tensors returns the five tensors of m as files hold them.
func (m *Matrix) Tensors() []Tensor {
	groups := make([]uint16, 0, 2*len(m.Groups))
	for _, g := range m.Groups {
		groups = append(groups, uint16(g.Bits), uint16(g.Word))
	}
	list := Shapes(m.In, m.Out, m.Groups)
	for i, data := range [][]byte{tensor.BytesOf(m.InvPerm), tensor.BytesOf(m.Scales), tensor.BytesOf(m.Words), tensor.BytesOf(groups), tensor.BytesOf(m.ScaleMax)} {
		list[i].Data = data
	}
	return list
}

// The slices above are the file's bytes: this program runs on little-endian
// machines only.
var _ = func() struct{} {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		panic("exl2: big-endian machines are not supported")
	}
	return struct{}{}
}()
