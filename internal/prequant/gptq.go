package prequant

import (
	"fmt"
	"slices"

	"exl2/internal/affine"
	"exl2/internal/half"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A gptq weight is, for a matrix of in rows and out columns:
//
//	qweight  I32 [in·bits/32, out]       codes, down the rows, lowest bits first
//	qzeros   I32 [groups, out·bits/32]   zeros, along the columns, less one in version 1:
//	                                     each of them, or, by GPTQModel, words of them
//	scales   F16 [groups, out]
//	g_idx    I32 [in]                    the group of each row; may be missing, or zeros, if they are in order
type gptq struct {
	files  *Files
	scheme *Scheme
	module string
}

func (w *gptq) form() string { return formOf("GPTQ", w) }

func (w *gptq) parts() []string {
	list := []string{w.module + ".qweight", w.module + ".qzeros", w.module + ".scales"}
	if w.files.source.Has(w.module + ".g_idx") {
		list = append(list, w.module+".g_idx")
	}
	return list
}

// A gptqShape is what the shapes of the parts say.
type gptqShape struct {
	in, out, bits, groups int

	listed []int32 // the group of each row, where a file says it
}

func (w *gptq) shape() (s gptqShape, err error) {
	codes, err := w.files.want(w.module+".qweight", safetensors.I32, -1, -1)
	if err != nil {
		return s, err
	}
	words := codes.Shape[0]
	s.out, s.bits = codes.Shape[1], w.scheme.Bits
	order, ordered := w.files.source.Info(w.module + ".g_idx")
	if ordered && w.scheme.Varying && len(order.Shape) == 1 && order.Shape[0] > 0 {
		s.bits = words * 32 / order.Shape[0]
	}
	if !slices.Contains(affine.Widths, s.bits) || s.out*s.bits%32 != 0 || s.out == 0 || words == 0 || words*32%s.bits != 0 {
		return s, fmt.Errorf("%s.qweight is %v, which is no matrix of %d bits", w.module, codes.Shape, s.bits)
	}
	s.in = words * 32 / s.bits
	scales, err := w.files.want(w.module+".scales", "", -1, s.out)
	if err != nil {
		return s, err
	}
	if s.groups = scales.Shape[0]; s.groups < 1 || s.groups > s.in {
		return s, fmt.Errorf("%s.scales: %d groups of %d rows", w.module, s.groups, s.in)
	}
	if _, err = w.files.want(w.module+".qzeros", safetensors.I32, s.groups, s.out*s.bits/32); err != nil {
		return s, err
	}
	if size := w.size(s); (s.in+size-1)/size != s.groups {
		return s, fmt.Errorf("%s.scales: %d groups of %d rows, want %d of %d", w.module, s.groups, s.in, (s.in+size-1)/size, size)
	}
	if s.listed, err = w.listed(s); err != nil {
		return s, err
	}
	if s.listed != nil {
		return s, w.checkListed(s)
	}
	if w.scheme.Ordered && s.groups > 1 {
		state := "missing"
		if ordered {
			state = "all zero"
		}
		return s, fmt.Errorf("%s.g_idx is %s, and desc_act says that rows are not in order", w.module, state)
	}
	return s, nil
}

// listed returns the group of each row, nil if g_idx is not there or says nothing: zeros,
// where there are several groups, are what early files have of rows in order.
func (w *gptq) listed(s gptqShape) ([]int32, error) {
	name := w.module + ".g_idx"
	if !w.files.source.Has(name) {
		return nil, nil
	}
	if _, err := w.files.want(name, safetensors.I32, s.in); err != nil {
		return nil, err
	}
	t, err := w.files.source.Get(name)
	if err != nil {
		return nil, err
	}
	list := tensor.View[int32](t.Data)
	if s.groups > 1 && !slices.ContainsFunc(list, func(g int32) bool { return g != 0 }) {
		return nil, nil
	}
	return list, nil
}

// checkListed refuses groups of more rows than the configuration says.
func (w *gptq) checkListed(s gptqShape) error {
	rows := map[int32]int{}
	for _, g := range s.listed {
		if rows[g]++; rows[g] > w.size(s) && !w.scheme.Varying && !w.scheme.unsaid {
			return fmt.Errorf("%s.g_idx: group %d has more rows than the %d that the configuration says", w.module, g, w.size(s))
		}
	}
	return nil
}

func (w *gptq) info() (safetensors.Info, error) {
	s, err := w.shape()
	return safetensors.Info{Name: w.module + ".weight", DType: safetensors.F16, Shape: []int{s.out, s.in}}, err
}

func (w *gptq) data() ([]byte, error) { return decoded(w) }

// decoded returns the weights of a matrix.
func decoded(w packed) ([]byte, error) {
	m, err := w.matrix()
	if err != nil {
		return nil, err
	}
	return tensor.BytesOf(m.Weights()), nil
}

func (w *gptq) outline() (*affine.Matrix, error) {
	m, _, err := w.ordered()
	return m, err
}

// ordered returns the outline and the order of the rows.
func (w *gptq) ordered() (*affine.Matrix, *affine.Order, error) {
	s, err := w.shape()
	if err != nil {
		return nil, nil, err
	}
	order := affine.Even(s.in, w.size(s))
	if s.listed != nil {
		if order, err = affine.Sorted(s.listed, s.groups); err != nil {
			return nil, nil, fmt.Errorf("%s.g_idx: %w", w.module, err)
		}
	}
	return &affine.Matrix{In: s.in, Out: s.out, Bits: s.bits, Rows: order.Rows, Perm: order.Perm}, &order, nil
}

// size returns the rows of a group, of which the last one may have fewer.
func (w *gptq) size(s gptqShape) int {
	switch {
	case w.scheme.Varying, w.scheme.unsaid:
		return (s.in + s.groups - 1) / s.groups
	case w.scheme.Group == 0:
		return s.in
	}
	return w.scheme.Group
}

func (w *gptq) matrix() (*affine.Matrix, error) {
	m, order, err := w.ordered()
	if err != nil {
		return nil, err
	}
	var parts [3]safetensors.Tensor
	for i, name := range w.parts()[:3] {
		if parts[i], err = w.files.source.Get(name); err != nil {
			return nil, err
		}
	}
	if m.Words = tensor.View[uint32](parts[0].Data); m.Perm != nil {
		m.Words = affine.Reorder(m.Words, m.Out, m.Bits, m.Perm)
	}
	scales, err := toF16(parts[2])
	if err != nil {
		return nil, err
	}
	m.Scales = affine.Pick(order, scales, m.Out)
	m.Zeros = affine.Pick(order, w.zeros(tensor.View[uint32](parts[1].Data), m), m.Out)
	return m, checked(m, w.module)
}

// checked names a matrix that is inconsistent.
func checked(m *affine.Matrix, module string) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("%s: %w", module, err)
	}
	return nil
}

// zeros unpacks the zeros, [groups, out]. Those of symmetric codes are known, and so
// tell which reading of version 1 is right where programs have written others.
func (w *gptq) zeros(words []uint32, m *affine.Matrix) []uint8 {
	unpack := func(words []uint32) []uint8 { return affine.Along(words, len(words)*32/(m.Out*m.Bits), m.Out, m.Bits) }
	if w.scheme.V2 {
		return unpack(words)
	}
	byCode := func() []uint8 {
		zeros := unpack(words)
		for i := range zeros {
			zeros[i] = (zeros[i] + 1) & (1<<m.Bits - 1)
		}
		return zeros
	}
	byWord := func() []uint8 { return unpack(raised(words, m.Out*m.Bits/32, m.Bits)) }
	first, second := byCode, byWord
	if w.scheme.ByWord {
		first, second = byWord, byCode
	}
	zeros, middle := first(), uint8(1)<<(m.Bits-1)
	other := func(z uint8) bool { return z != middle }
	if w.scheme.Even && slices.ContainsFunc(zeros, other) {
		if again := second(); !slices.ContainsFunc(again, other) {
			return again
		}
	}
	return zeros
}

// less is what GPTQModel subtracts from words of zeros for version 1: one for each
// code, but for three bits.
var less = map[int][]uint32{2: {0x55555555}, 3: {0x24924924, 0x92492492, 0x49249249}, 4: {0x11111111}, 8: {0x01010101}}

// raised returns rows of words of the given width with that added.
func raised(words []uint32, width, bits int) []uint32 {
	out := make([]uint32, len(words))
	for i, v := range words {
		out[i] = v + less[bits][i%width%len(less[bits])]
	}
	return out
}

// toF16 returns numbers as fp16.
func toF16(t safetensors.Tensor) ([]half.F16, error) {
	if t.DType == safetensors.F16 {
		return tensor.View[half.F16](t.Data), nil
	}
	wide, err := toF32(t)
	if err != nil {
		return nil, err
	}
	out := make([]half.F16, len(wide))
	for i, v := range wide {
		if out[i] = half.ToF16(v); !(v >= -half.MaxF16 && v <= half.MaxF16) {
			return nil, fmt.Errorf("%s: element %d is %v, which fp16 cannot hold", t.Name, i, v)
		}
	}
	return out, nil
}

// toF32 returns numbers as float32.
func toF32(t safetensors.Tensor) ([]float32, error) {
	kind, ok := map[string]tensor.Type{safetensors.F16: tensor.F16, safetensors.BF16: tensor.BF16, safetensors.F32: tensor.F32}[t.DType]
	if !ok {
		return nil, fmt.Errorf("%s is %s, want F16, BF16 or F32", t.Name, t.DType)
	}
	return tensor.Widen(kind, t.Data), nil
}
