package prequant

import (
	"fmt"

	"exl2/internal/affine"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// An awq weight in the layout "gemm" is, for a matrix of in rows and out columns:
//
//	qweight  I32 [in, out/8]       codes of eight columns a word
//	qzeros   I32 [groups, out/8]   zeros, likewise
//	scales   F16 [groups, out]
//
// Of the eight columns of a word, the lowest bits belong to column 0, the next to
// 2, 4, 6, 1, 3, 5 and 7.
type awq struct {
	files  *Files
	scheme *Scheme
	module string
}

// awqShift is where the bits of each of a word's columns begin.
var awqShift = [8]int{0, 16, 4, 20, 8, 24, 12, 28}

func (w *awq) form() string { return formOf("AWQ", w) }

func (w *awq) parts() []string {
	return []string{w.module + ".qweight", w.module + ".qzeros", w.module + ".scales"}
}

func (w *awq) outline() (*affine.Matrix, error) {
	codes, err := w.files.want(w.module+".qweight", safetensors.I32, -1, -1)
	if err != nil {
		return nil, err
	}
	in, out := codes.Shape[0], 8*codes.Shape[1]
	size := w.scheme.Group
	if size == 0 {
		size = in
	}
	if in == 0 || out == 0 || in%8 != 0 {
		return nil, fmt.Errorf("%s.qweight is %v, which is no matrix of 4 bits", w.module, codes.Shape)
	}
	m := &affine.Matrix{In: in, Out: out, Bits: 4, Rows: affine.Even(in, size).Rows}
	if _, err = w.files.want(w.module+".scales", "", len(m.Rows), out); err == nil {
		_, err = w.files.want(w.module+".qzeros", safetensors.I32, len(m.Rows), out/8)
	}
	return m, err
}

func (w *awq) info() (safetensors.Info, error) {
	m, err := w.outline()
	if err != nil {
		return safetensors.Info{}, err
	}
	return safetensors.Info{Name: w.module + ".weight", DType: safetensors.F16, Shape: []int{m.Out, m.In}}, nil
}

func (w *awq) data() ([]byte, error) { return decoded(w) }

func (w *awq) matrix() (*affine.Matrix, error) {
	m, err := w.outline()
	if err != nil {
		return nil, err
	}
	var parts [3]safetensors.Tensor
	for i, name := range w.parts() {
		if parts[i], err = w.files.source.Get(name); err != nil {
			return nil, err
		}
	}
	codes, zeros := tensor.View[uint32](parts[0].Data), tensor.View[uint32](parts[1].Data)
	m.Words = affine.Pack(m.In, m.Out, 4, func(dst []uint8, r, lo int) { awqRow(dst, codes[r*m.Out/8:], lo) })
	for g := range m.Rows {
		row := make([]uint8, m.Out)
		awqRow(row, zeros[g*m.Out/8:], 0)
		m.Zeros = append(m.Zeros, row...)
	}
	if m.Scales, err = toF16(parts[2]); err != nil {
		return nil, err
	}
	return m, checked(m, w.module)
}

// awqRow stores the codes of a row's columns lo and on.
func awqRow(dst []uint8, words []uint32, lo int) {
	for i := range dst {
		c := lo + i
		dst[i] = uint8(words[c/8] >> awqShift[c%8] & 15)
	}
}
