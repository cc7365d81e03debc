package model

import (
	"fmt"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A builder makes one module and keeps the first error.
type builder struct {
	*Loader
	dev    device.Device
	beside *Module                  // whose matrices are copied, those that it has
	dense  map[string]tensor.Tensor // matrices that are made
	err    error
}

// linear loads a linear that is not an expert's, by its name in arch.Names.
func (b *builder) linear(m *Module, part string) *Linear { return b.expertLinear(m, part, 0) }

// expertLinear loads a linear in whichever format the file has it.
func (b *builder) expertLinear(m *Module, part string, expert int) *Linear {
	spec, _ := m.Linear(part, expert)
	l := &Linear{LinearSpec: spec}
	packed := b.packed(spec)
	switch {
	case b.err != nil:
	case packed != nil:
		l.W = Quantized{packed}
	case b.UnitHead(spec):
		l.W = Dense{b.unitRows(m, l)}
	default:
		l.W = Dense{b.matrix(m.table(l), l.Out, l.In)}
	}
	if l.Biased {
		l.Bias = b.vector(l.Name+".bias", l.Out)
	}
	return l
}

// packed loads a linear's matrix if it is one of codes, or returns nil.
func (b *builder) packed(s LinearSpec) device.Matrix {
	m, err := b.Matrix(s)
	if err != nil {
		b.fail(err)
	}
	if m != nil && b.err == nil {
		return b.dev.LoadEXL2(m, s.Out)
	}
	if b.err != nil || !b.packs(s, b.dev) {
		return nil
	}
	a, err := b.Packed(s)
	if err != nil {
		b.fail(err)
	}
	if a == nil || b.err != nil {
		return nil
	}
	return b.dev.LoadAffine(a)
}

// table returns the name of the tensor that holds a linear's weights.
func (m *Module) table(l *Linear) string {
	if m.Table != "" && l.Role == arch.Head {
		return m.Table
	}
	return l.Name
}

// own has the module free t.
func (b *builder) own(m *Module, t tensor.Tensor) tensor.Tensor {
	if !t.Nil() {
		m.owned = append(m.owned, t)
	}
	return t
}

// matrix is read, or copied from the module beside.
func (b *builder) matrix(name string, rows, cols int) tensor.Tensor {
	t, ok := b.copied(name)
	if !ok {
		t = b.read(name, rows, cols)
	}
	b.dense[name] = t
	return t
}

func (b *builder) copied(name string) (t tensor.Tensor, ok bool) {
	src, there := b.beside.dense[name]
	from, can := b.beside.dev.(device.Peer)
	if b.err != nil || !there || src.Nil() || !can {
		return t, false
	}
	t = b.dev.Alloc(src.Type, src.Rows, src.Cols)
	if !from.CopyTo(b.dev, t, src) {
		b.dev.Free(t)
		return tensor.Tensor{}, false
	}
	return t, true
}

// read loads the tensor name.weight, [rows, cols], in the file's own type, or,
// where activations are fp16, in that, which products then need not convert.
func (b *builder) read(name string, rows, cols int) tensor.Tensor {
	t, kind, ok := b.get(name+".weight", []int{rows, cols})
	if !ok {
		return tensor.Tensor{}
	}
	if kind != tensor.F16 && b.dev.Activation() == tensor.F16 {
		data, err := narrow(kind, t.Data)
		if err != nil {
			b.fail(fmt.Errorf("%s: %w", t.Name, err))
			return tensor.Tensor{}
		}
		return b.upload(tensor.F16, rows, cols, data)
	}
	if h, ok := b.dev.(device.Borrower); ok {
		if borrowed, ok := h.Borrow(kind, rows, cols, t.Data); ok {
			return borrowed
		}
	}
	return b.upload(kind, rows, cols, t.Data)
}

// UnitHead reports whether a linear is a head whose rows are normalized when it is loaded.
func (l *Loader) UnitHead(s LinearSpec) bool {
	return s.Role == arch.Head && l.Spec.HeadUnit && !l.Files.Has(s.Name+"."+exl2.SuffixWords)
}

// unitRows loads the head with its rows divided by their norms.
func (b *builder) unitRows(m *Module, l *Linear) tensor.Tensor {
	t, kind, ok := b.get(m.table(l)+".weight", []int{l.Out, l.In})
	if !ok {
		return tensor.Tensor{}
	}
	w := tensor.Widen(kind, t.Data)
	for r := range l.Out {
		toUnit(w[r*l.In : (r+1)*l.In])
	}
	if b.dev.Activation() == tensor.F16 {
		data, _ := narrow(tensor.F32, tensor.BytesOf(w)) // none is above one
		return b.upload(tensor.F16, l.Out, l.In, data)
	}
	return b.upload(tensor.F32, l.Out, l.In, tensor.BytesOf(w))
}

// vector loads n numbers as F32.
func (b *builder) vector(name string, n int) tensor.Tensor {
	v := b.floats(name, 1, n)
	if v == nil {
		return tensor.Tensor{}
	}
	return b.upload(tensor.F32, 1, n, tensor.BytesOf(v))
}

// numbers loads numbers as F32: a row for what the first dimension of their tensor counts, or, if that has only
// one or holds more, one row.
func (b *builder) numbers(v VectorSpec) tensor.Tensor {
	if v.Dims == nil {
		return b.vector(v.Name, v.Cols)
	}
	t, kind, ok := b.get(v.Name, v.Dims)
	if !ok {
		return tensor.Tensor{}
	}
	all, rows := tensor.Widen(kind, t.Data), 1
	if len(all) == v.Cols {
		rows = v.Dims[0]
	}
	return b.upload(tensor.F32, rows, v.Cols/rows, tensor.BytesOf(all[:v.Cols]))
}

// floats loads the rows of a tensor, of one dimension or two. EXL2 files hold
// biases padded like their matrices: the first cols elements of one row count.
func (b *builder) floats(name string, rows, cols int) []float32 {
	shapes := [][]int{{rows * cols}, {rows, cols}}
	if rows == 1 {
		shapes = [][]int{{cols}, {exl2.Pad(cols)}, {1, cols}} // the last: of one head
	}
	t, kind, ok := b.get(name, shapes...)
	if !ok {
		return nil
	}
	return tensor.Widen(kind, t.Data)[:rows*cols]
}

// get finds a floating-point tensor of one of the given shapes.
func (b *builder) get(name string, shapes ...[]int) (safetensors.Tensor, tensor.Type, bool) {
	if b.err != nil {
		return safetensors.Tensor{}, 0, false
	}
	t, err := b.Files.Get(name)
	if err != nil {
		b.fail(err)
		return t, 0, false
	}
	kind, ok := floatTypes[t.DType]
	if !ok {
		b.fail(fmt.Errorf("%s: %w: type %s, want F16, BF16 or F32", name, arch.ErrUnsupported, t.DType))
		return t, 0, false
	}
	if !slices.ContainsFunc(shapes, func(s []int) bool { return slices.Equal(s, t.Shape) }) {
		b.fail(fmt.Errorf("%s: shape %v, want %v", name, t.Shape, shapes[0]))
		return t, 0, false
	}
	if b.Strict {
		if i := firstNotFinite(kind, t.Data); i >= 0 {
			b.fail(fmt.Errorf("%s: element %d is NaN or infinite: the source is damaged", name, i))
			return t, 0, false
		}
	}
	return t, kind, true
}

var floatTypes = map[string]tensor.Type{"F16": tensor.F16, "BF16": tensor.BF16, "F32": tensor.F32}

// Holds reports whether tensors that stay as they are may have a type.
func Holds(dtype string) bool {
	_, ok := floatTypes[dtype]
	return ok
}

func (b *builder) upload(t tensor.Type, rows, cols int, data []byte) tensor.Tensor {
	dst := b.dev.Alloc(t, rows, cols)
	b.dev.Upload(dst, data)
	return dst
}

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func orOne(f float32) float32 {
	if f == 0 {
		return 1
	}
	return f
}
