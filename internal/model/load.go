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

// Files is where a Loader finds tensors; a *safetensors.Set is one.
type Files interface {
	Get(name string) (safetensors.Tensor, error)
	Has(name string) bool
}

// A Loader makes the modules of a model from its files, one at a time.
type Loader struct {
	Spec  arch.Spec
	Files Files

	// Strict refuses weights that are NaN or infinite. It reads them all.
	Strict bool
}

// Modules returns the number of modules: embedding, two a layer, head.
func (l *Loader) Modules() int { return 2*l.Spec.Layers + 2 }

// ModuleName returns the name of module i.
func (l *Loader) ModuleName(i int) string {
	n := l.Spec.Names
	switch {
	case i == 0:
		return n.Embed
	case i == l.Modules()-1:
		return n.Head
	case i%2 == 1:
		return n.Layer((i-1)/2, parent(n.O))
	}
	return n.Layer((i-1)/2, parent(n.Down))
}

// A Shape is what is known of a linear before it is loaded.
type Shape struct {
	Name    string
	In, Out int
}

// Shapes lists the linears of module i, in the order they run.
func (l *Loader) Shapes(i int) []Shape {
	s, n, a := l.Spec, l.Spec.Names, l.Spec.Attn
	wide, narrow := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	layer := (i - 1) / 2
	switch {
	case i == 0:
		return nil
	case i == l.Modules()-1:
		return []Shape{{n.Head, s.Hidden, s.Vocab}}
	case i%2 == 1:
		return []Shape{
			{n.Layer(layer, n.Q), s.Hidden, wide}, {n.Layer(layer, n.K), s.Hidden, narrow},
			{n.Layer(layer, n.V), s.Hidden, narrow}, {n.Layer(layer, n.O), wide, s.Hidden},
		}
	}
	return []Shape{
		{n.Layer(layer, n.Gate), s.Hidden, s.MLP.Width}, {n.Layer(layer, n.Up), s.Hidden, s.MLP.Width},
		{n.Layer(layer, n.Down), s.MLP.Width, s.Hidden},
	}
}

// parent returns name without its last part.
func parent(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[:i]
		}
	}
	return name
}

// Load makes module i on d.
func (l *Loader) Load(d device.Device, i int) (Module, error) {
	b := builder{Loader: l, dev: d}
	m := b.module(i)
	if b.err == nil {
		b.err = d.Sync()
	}
	if b.err != nil {
		m.Free()
		return nil, fmt.Errorf("load %s: %w", l.ModuleName(i), b.err)
	}
	return m, nil
}

// LoadAll makes every module on d.
func (l *Loader) LoadAll(d device.Device) ([]Module, error) {
	var list []Module
	for i := range l.Modules() {
		m, err := l.Load(d, i)
		if err != nil {
			for _, m := range list {
				m.Free()
			}
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// Quantized reports whether the model's matrices are EXL2.
func (l *Loader) Quantized() bool {
	n := l.Spec.Names
	return l.Files.Has(n.Layer(0, n.O) + "." + exl2.SuffixWords)
}

// A builder makes one module and keeps the first error.
type builder struct {
	*Loader
	dev device.Device
	err error
}

func (b *builder) module(i int) Module {
	switch {
	case i == 0:
		return b.embedding()
	case i == b.Modules()-1:
		return b.head()
	case i%2 == 1:
		return b.attention(i)
	}
	return b.mlp(i)
}

func (b *builder) embedding() Module {
	s := b.Spec
	return &Embedding{dev: b.dev, name: s.Names.Embed, Table: b.dense(s.Names.Embed, s.Vocab, s.Hidden), scale: orOne(s.EmbedScale)}
}

func (b *builder) head() Module {
	s := b.Spec
	h := &Head{dev: b.dev, name: s.Names.Head, In: b.norm(s.Names.Final), scale: orOne(s.LogitScale), softcap: s.LogitCap}
	h.Out = b.linear(b.Shapes(b.Modules() - 1)[0])
	return h
}

func (b *builder) attention(i int) Module {
	layer, name, l := (i-1)/2, b.ModuleName(i), b.linears(i)
	s, n, a := b.Spec, b.Spec.Names, b.Spec.Attn
	m := &Attention{
		dev: b.dev, name: name, layer: layer, residual: orOne(s.Residual),
		In: b.norm(n.Layer(layer, n.NormIn)),
		Q:  l[0], K: l[1], V: l[2], O: l[3],
		attend: device.Attend{Heads: a.Heads, KVHeads: a.KVHeads, HeadDim: a.HeadDim, Scale: a.Scale, Softcap: a.Softcap},
	}
	if s.Window != nil {
		m.attend.Window = s.Window(layer)
	}
	if s.Rope != nil {
		r := s.Rope(layer)
		freqs, scale := r.Frequencies()
		m.rope = device.Rope{Dims: r.Dims, Interleaved: r.Interleaved, Scale: scale}
		m.freqs = b.upload(tensor.F32, 1, len(freqs), tensor.BytesOf(freqs))
	}
	return m
}

func (b *builder) mlp(i int) Module {
	s, n, l := b.Spec, b.Spec.Names, b.linears(i)
	return &MLP{
		dev: b.dev, name: b.ModuleName(i), residual: orOne(s.Residual), act: s.MLP.Act,
		In:   b.norm(n.Layer((i-1)/2, n.NormMLPIn)),
		Gate: l[0], Up: l[1], Down: l[2],
	}
}

func (b *builder) linears(i int) []*Linear {
	var list []*Linear
	for _, s := range b.Shapes(i) {
		list = append(list, b.linear(s))
	}
	return list
}

// linear loads a matrix in whichever format the file has it.
func (b *builder) linear(shape Shape) *Linear {
	name, in, out := shape.Name, shape.In, shape.Out
	l := &Linear{Name: name, In: in, Out: out}
	m, err := b.Matrix(shape)
	if err != nil {
		b.fail(err)
	}
	switch {
	case b.err != nil:
	case m != nil:
		l.W = Quantized{b.dev.LoadEXL2(m, out)}
	case name == b.Spec.Names.Head && b.Spec.Tied:
		l.W = Dense{b.dense(b.Spec.Names.Embed, out, in)}
	default:
		l.W = Dense{b.dense(name, out, in)}
	}
	if b.Biased(name) {
		l.Bias = b.vector(name+".bias", out)
	}
	return l
}

// Biased reports whether the architecture gives the named matrix a bias.
func (l *Loader) Biased(name string) bool {
	s, n := l.Spec, l.Spec.Names
	ends := func(part string) bool {
		return len(name) > len(part) && name[len(name)-len(part)-1:] == "."+part
	}
	switch {
	case ends(n.Q), ends(n.K), ends(n.V):
		return s.Attn.BiasQKV
	case ends(n.O):
		return s.Attn.BiasO
	case ends(n.Gate), ends(n.Up), ends(n.Down):
		return s.MLP.Bias
	}
	return false
}

// Matrix reads a linear's EXL2 matrix, or returns nil if the linear is not
// quantized.
func (l *Loader) Matrix(s Shape) (*exl2.Matrix, error) {
	if !l.Files.Has(s.Name + "." + exl2.SuffixWords) {
		return nil, nil
	}
	m, err := ReadMatrix(l.Files, s.Name)
	if err == nil && (m.In != s.In || m.Out != exl2.Pad(s.Out)) {
		err = fmt.Errorf("%s: EXL2 matrix of %d x %d, want %d x %d", s.Name, m.In, m.Out, s.In, exl2.Pad(s.Out))
	}
	return m, err
}

// ReadMatrix reads the EXL2 matrix of the given name.
func ReadMatrix(f Files, name string) (*exl2.Matrix, error) {
	m, err := exl2.Parse(func(suffix string) (exl2.Tensor, error) {
		t, err := f.Get(name + "." + suffix)
		return exl2.Tensor{Suffix: suffix, DType: t.DType, Shape: t.Shape, Data: t.Data}, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func (b *builder) norm(name string) Norm {
	return Norm{Norm: b.Spec.Norm, W: b.vector(name+".weight", b.Spec.Hidden)}
}

// dense loads the tensor name.weight, [rows, cols], in the file's own type, or,
// where activations are fp16, in that, which products then need not convert.
func (b *builder) dense(name string, rows, cols int) tensor.Tensor {
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

// vector loads the first n elements of a one-dimensional tensor as F32; EXL2
// files hold biases padded like their matrices.
func (b *builder) vector(name string, n int) tensor.Tensor {
	shapes := [][]int{{n}, {exl2.Pad(n)}}
	t, kind, ok := b.get(name, shapes...)
	if !ok {
		return tensor.Tensor{}
	}
	return b.upload(tensor.F32, 1, n, tensor.BytesOf(widen(kind, t.Data)[:n]))
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

// Open opens the model in a folder; the files are the caller's to close.
func Open(dir string) (*Loader, *safetensors.Set, error) {
	config, err := arch.ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	spec, err := arch.For(config)
	if err != nil {
		return nil, nil, err
	}
	// Formats of others would end as weights that are missing or have odd types.
	if q := config.Object("quantization_config"); q.Has("quant_method") && q.String("quant_method", "") != "exl2" {
		return nil, nil, fmt.Errorf("%s: config.json: quantization_config.quant_method: %w: %q (known: exl2)", dir, arch.ErrUnsupported, q.String("quant_method", ""))
	}
	files, err := safetensors.OpenDir(dir, exl2.IsCodes)
	if err != nil {
		return nil, nil, err
	}
	return &Loader{Spec: spec, Files: files}, files, nil
}
