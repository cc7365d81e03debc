package prequant

import (
	"encoding/binary"
	"fmt"
	"slices"

	"exl2/internal/affine"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A compressed weight is what compressed-tensors calls pack-quantized, for a weight
// [out, in] with codes that are signed numbers plus 2^(bits-1):
//
//	weight_packed      I32 [out, in·bits/32]       codes, along the inputs, lowest bits first
//	weight_scale       [out, groups]
//	weight_zero_point  I32 [out·bits/32, groups]   zeros, down the outputs; missing if all are the middle
//	weight_g_idx       I32 [in]                    the group of each input; missing if they are in order
//	weight_shape       [2]                         out and in
type compressed struct {
	files  *Files
	scheme *Scheme
	module string
}

func (w *compressed) name(part string) string { return w.module + ".weight_" + part }

func (w *compressed) form() string { return formOf("pack-quantized", w) }

func (w *compressed) parts() []string {
	list := []string{w.name("packed"), w.name("scale")}
	for _, part := range []string{"zero_point", "g_idx", "shape"} {
		if w.files.source.Has(w.name(part)) {
			list = append(list, w.name(part))
		}
	}
	return list
}

// shape returns the matrix's size; what is in the file goes before the scheme.
func (w *compressed) shape() (s gptqShape, err error) {
	codes, err := w.files.want(w.name("packed"), safetensors.I32, -1, -1)
	if err != nil {
		return s, err
	}
	s.out, s.bits = codes.Shape[0], w.scheme.Bits
	words := codes.Shape[1]
	if w.files.source.Has(w.name("shape")) {
		if s.in, err = w.inputs(s.out); err != nil {
			return s, err
		}
		s.bits = words * 32 / s.in
	} else if s.bits > 0 && !w.scheme.Varying {
		s.in = words * 32 / s.bits
	}
	if !slices.Contains([]int{2, 4, 8}, s.bits) || s.in*s.bits != words*32 || s.in == 0 || s.out*s.bits%32 != 0 {
		return s, fmt.Errorf("%s is %v, which is no matrix of %d inputs of %d bits", w.name("packed"), codes.Shape, s.in, s.bits)
	}
	scales, err := w.files.want(w.name("scale"), "", s.out, -1)
	if err != nil {
		return s, err
	}
	if s.groups = scales.Shape[1]; s.groups < 1 || s.in%s.groups != 0 {
		return s, fmt.Errorf("%s: %d groups of %d inputs", w.name("scale"), s.groups, s.in)
	}
	if w.files.source.Has(w.name("zero_point")) {
		if _, err = w.files.want(w.name("zero_point"), safetensors.I32, s.out*s.bits/32, s.groups); err != nil {
			return s, err
		}
	}
	if w.files.source.Has(w.name("g_idx")) {
		_, err = w.files.want(w.name("g_idx"), safetensors.I32, s.in)
	}
	return s, err
}

// inputs reads weight_shape.
func (w *compressed) inputs(out int) (in int, err error) {
	t, err := w.files.source.Get(w.name("shape"))
	if err != nil {
		return 0, err
	}
	var v [2]int
	switch {
	case t.DType == "I64" && len(t.Data) == 16:
		v = [2]int{int(binary.LittleEndian.Uint64(t.Data)), int(binary.LittleEndian.Uint64(t.Data[8:]))}
	case t.DType == safetensors.I32 && len(t.Data) == 8:
		v = [2]int{int(binary.LittleEndian.Uint32(t.Data)), int(binary.LittleEndian.Uint32(t.Data[4:]))}
	}
	if v[0] != out || v[1] < 1 || v[1] > 1<<24 {
		return 0, fmt.Errorf("%s is %v, want %d outputs, and inputs", t.Name, v, out)
	}
	return v[1], nil
}

func (w *compressed) info() (safetensors.Info, error) {
	s, err := w.shape()
	if err == nil {
		err = w.fits(s)
	}
	return safetensors.Info{Name: w.module + ".weight", DType: safetensors.F16, Shape: []int{s.out, s.in}}, err
}

// fits refuses a matrix that is not as the configuration says.
func (w *compressed) fits(s gptqShape) error {
	at, err := w.zerosAt(s.bits)
	if err != nil {
		return err
	}
	return w.scheme.fits(stored{w.name("packed"), s.bits, "int", [2]int{s.out, s.in}, [2]int{1, s.in / s.groups}, at})
}

// zerosAt says where the zeros are.
func (w *compressed) zerosAt(bits int) (zeros, error) {
	if !w.files.source.Has(w.name("zero_point")) {
		return unwritten, nil
	}
	t, err := w.files.source.Get(w.name("zero_point"))
	if err != nil {
		return unwritten, err
	}
	centre := uint32(0)
	for bit := bits - 1; bit < 32; bit += bits {
		centre |= 1 << bit
	}
	if slices.ContainsFunc(tensor.View[uint32](t.Data), func(word uint32) bool { return word != centre }) {
		return elsewhere, nil
	}
	return middle, nil
}

func (w *compressed) data() ([]byte, error) { return decoded(w) }

func (w *compressed) outline() (*affine.Matrix, error) {
	m, _, _, err := w.ordered()
	return m, err
}

// ordered returns the outline, the order of the rows and the number of groups.
func (w *compressed) ordered() (*affine.Matrix, *affine.Order, int, error) {
	s, err := w.shape()
	if err != nil {
		return nil, nil, 0, err
	}
	order := affine.Even(s.in, s.in/s.groups)
	if w.files.source.Has(w.name("g_idx")) {
		t, err := w.files.source.Get(w.name("g_idx"))
		if err != nil {
			return nil, nil, 0, err
		}
		if order, err = affine.Sorted(tensor.View[int32](t.Data), s.groups); err != nil {
			return nil, nil, 0, fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return &affine.Matrix{In: s.in, Out: s.out, Bits: s.bits, Rows: order.Rows, Perm: order.Perm}, &order, s.groups, nil
}

func (w *compressed) matrix() (*affine.Matrix, error) {
	m, order, groups, err := w.ordered()
	if err != nil {
		return nil, err
	}
	packed, err := w.files.source.Get(w.name("packed"))
	if err != nil {
		return nil, err
	}
	scale, err := w.files.source.Get(w.name("scale"))
	if err != nil {
		return nil, err
	}
	scales, err := toF16(scale)
	if err != nil {
		return nil, err
	}
	zeros, err := w.zeros(m, groups)
	if err != nil {
		return nil, err
	}
	codes := affine.Along(tensor.View[uint32](packed.Data), m.Out, m.In, m.Bits)
	m.Words = affine.Pack(m.In, m.Out, m.Bits, func(dst []uint8, r, lo int) {
		at := order.Row(r)
		for i := range dst {
			dst[i] = codes[(lo+i)*m.In+at]
		}
	})
	m.Scales = affine.Pick(order, turned(scales, m.Out, groups), m.Out)
	m.Zeros = affine.Pick(order, zeros, m.Out)
	return m, checked(m, w.module)
}

// zeros returns the zeros, [groups, out].
func (w *compressed) zeros(m *affine.Matrix, groups int) ([]uint8, error) {
	if !w.files.source.Has(w.name("zero_point")) {
		return slices.Repeat([]uint8{1 << (m.Bits - 1)}, groups*m.Out), nil
	}
	t, err := w.files.source.Get(w.name("zero_point"))
	if err != nil {
		return nil, err
	}
	words := tensor.View[uint32](t.Data)
	zeros := make([]uint8, groups*m.Out)
	for i := range zeros {
		g, bit := i/m.Out, i%m.Out*m.Bits
		zeros[i] = uint8(words[bit/32*groups+g] >> (bit % 32) & (1<<m.Bits - 1))
	}
	return zeros, nil
}

// turned returns v, [rows, cols], transposed.
func turned[E any](v []E, rows, cols int) []E {
	out := make([]E, len(v))
	for r := range rows {
		for c := range cols {
			out[c*rows+r] = v[r*cols+c]
		}
	}
	return out
}
