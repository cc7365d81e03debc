package synth

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/model"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A Model is a random model. It has the tensors of a real one's files.
type Model struct {
	Spec  arch.Spec
	Shape *Shape

	seed    uint64
	bits    float64
	tensors map[string]maker
	names   []string // in the order they are made
}

// A maker makes a tensor.
type maker struct {
	info safetensors.Info
	data func() []byte
}

// New returns a random model of a shape: fp16 if bits is 0, else EXL2 with
// every matrix at that many bits per weight.
func New(s *Shape, seed uint64, bits float64) (*Model, error) {
	spec, err := s.spec()
	if err != nil {
		return nil, err
	}
	m := &Model{Spec: spec, Shape: s, seed: seed, bits: bits, tensors: map[string]maker{}}
	var recipe exl2.Recipe
	if bits != 0 {
		if recipe, err = RecipeFor(bits); err != nil {
			return nil, err
		}
	}
	for _, spec := range model.Layout(spec) {
		if err := packable(spec.Linears, recipe); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		m.module(spec, recipe)
	}
	return m, nil
}

// packable refuses matrices that EXL2 cannot hold.
func packable(linears []model.LinearSpec, recipe exl2.Recipe) error {
	for _, x := range linears {
		if recipe != nil && (x.In%exl2.Align != 0 || x.In > 1<<16) {
			return fmt.Errorf("%s has %d inputs; EXL2 needs a multiple of %d up to %d, fp16 takes any", x.Name, x.In, exl2.Align, 1<<16)
		}
	}
	return nil
}

// headRecipe is what heads of random EXL2 models are stored with, as
// converters do at 6 bits.
var headRecipe = exl2.MustRecipe("0.15:8b_128g/0.85:6b_128g")

// Widths says which bits per weight a random EXL2 model can have.
const Widths = "2 to 6, whole or half, or 8"

// RecipeFor returns the recipe of a random EXL2 model's matrices: whole widths
// in groups of 128, halves between them in groups of 64.
func RecipeFor(bits float64) (exl2.Recipe, error) {
	whole := int(math.Floor(bits))
	r := exl2.Uniform(whole, 128)
	switch {
	case bits == float64(whole):
	case bits == float64(whole)+0.5:
		r = exl2.Recipe{{Bits: whole + 1, Group: 64, Share: 0.5}, {Bits: whole, Group: 64, Share: 0.5}}
	default:
		r = nil
	}
	if r.Check() != nil {
		return nil, fmt.Errorf("%v bits per weight, want %s", bits, Widths)
	}
	return r, nil
}

// module adds the tensors of a module.
func (m *Model) module(spec model.ModuleSpec, recipe exl2.Recipe) {
	switch spec.Kind {
	case model.Embedding:
		m.add(spec.Table+".weight", safetensors.F16, []int{m.Spec.Vocab, m.Spec.TableWidth()}, m.normal)
		if spec.Positions != "" {
			m.add(spec.Positions+".weight", safetensors.F16, []int{m.Spec.LearnedFrom + m.Spec.Learned, m.Spec.Hidden}, m.normal)
		}
		if spec.Inputs != "" {
			m.add(spec.Inputs+".weight", safetensors.F16, []int{m.Spec.PerLayer.Rows, m.Spec.Layers * m.Spec.PerLayer.Size}, m.normal)
		}
	case model.Head:
		recipe = orNil(recipe, headRecipe)
	}
	for _, n := range spec.Norms {
		m.norm(n, amount(spec, n.Place))
	}
	for _, v := range spec.Vectors {
		m.add(v.Name, safetensors.F16, v.Shape(), m.normal)
	}
	for _, l := range spec.Linears {
		m.linear(l, orderedAs(l, spec, m.Spec.Names), recipe, spec.Table == "")
	}
	for _, l := range spec.Fixed {
		m.linear(l, l.Name, nil, true)
	}
}

// inputs are the roles of linears that read the same activation as another's, which
// comes first, of what is no norm of the stream: converters give them one order of rows.
var inputs = map[arch.Role]arch.Role{arch.K: arch.Q, arch.V: arch.Q, arch.Up: arch.Gate}

// orderedAs returns the name of the linear that has the order of l's rows, as it reads the same norm, or is of the same part of a layer: its
// own if there is no other.
func orderedAs(l model.LinearSpec, m model.ModuleSpec, n arch.Names) string {
	if first, ok := m.FirstReader(n, l); ok {
		return first.Name
	}
	for _, o := range m.Linears {
		if o.Role == inputs[l.Role] && o.Expert == l.Expert && o.In == l.In && inside(o.Part) == inside(l.Part) {
			return o.Name
		}
	}
	return l.Name
}

// inside returns what a part is in, as "self_attn".
func inside(part string) string { return part[:max(0, strings.LastIndexByte(part, '.'))] }

// linear adds a linear, with the order of the rows of another; one that is tied to the
// embedding has no weights of its own unless they are quantized.
func (m *Model) linear(l model.LinearSpec, order string, recipe exl2.Recipe, own bool) {
	out := l.Out
	switch {
	case recipe != nil:
		m.matrix(l, order, recipe)
		out = exl2.Pad(out)
	case own:
		m.add(l.Name+".weight", safetensors.F16, m.shape(l), m.normal)
	}
	if l.Biased {
		m.add(l.Name+".bias", safetensors.F16, []int{out}, m.normal)
	}
}

// shape returns that of a linear's weights, which a file may have transposed under the
// same name.
func (m *Model) shape(l model.LinearSpec) []int {
	for _, t := range m.Spec.Stored {
		if t.Weight == l.Part+".weight" && t.Transposed && slices.Equal(t.Holds, []string{l.Part}) {
			return []int{l.In, l.Out}
		}
	}
	return []int{l.Out, l.In}
}

func orNil(r, other exl2.Recipe) exl2.Recipe {
	if r == nil {
		return nil
	}
	return other
}

// inFront are the norms in front of what others are behind.
var inFront = map[model.Place]model.Place{model.NormOut: model.NormIn, model.NormMLPOut: model.NormMLPIn}

// amount is what a norm multiplies by: one, or, of what a sublayer gives that reads the stream as it is, an eighth, as random streams
// would grow until its products overflow fp16.
func amount(spec model.ModuleSpec, place model.Place) float32 {
	in, behind := inFront[place]
	if !behind || spec.Table != "" || spec.Kind == model.Head || slices.ContainsFunc(spec.Norms, func(n model.NormSpec) bool { return n.Place == in }) {
		return 1
	}
	return 1. / 8
}

// norm adds a norm's weights, so that it multiplies by some amount and minus that in turn, and
// biases. Random codes are half a step below zero in the mean: a stream of one sign
// would grow from product to product until fp16 overflows.
func (m *Model) norm(spec model.NormSpec, amount float32) {
	shape := []int{spec.Cols}
	if spec.Rows > 1 && !strings.Contains(spec.Name, "*") {
		shape = []int{spec.Rows, spec.Cols}
	}
	for _, name := range spec.Tensors() {
		if strings.HasSuffix(name, ".bias") {
			m.add(name, safetensors.F16, shape, m.normal)
			continue
		}
		m.add(name, safetensors.F16, shape, func(_ string, n int) []byte {
			all := make([]half.F16, n)
			for i := range all {
				all[i] = half.ToF16(amount*float32(1-i%2*2) - spec.Norm.Offset)
			}
			return tensor.BytesOf(all)
		})
	}
}

func (m *Model) add(name, dtype string, shape []int, data func(name string, elements int) []byte) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	m.names = append(m.names, name)
	m.tensors[name] = maker{safetensors.Info{Name: name, DType: dtype, Shape: shape}, func() []byte { return data(name, n) }}
}

// matrix adds the five tensors of an EXL2 matrix.
func (m *Model) matrix(x model.LinearSpec, order string, recipe exl2.Recipe) {
	out, groups := exl2.Pad(x.Out), recipe.Groups(x.In)
	last := groups[len(groups)-1]
	words := last.Word + last.Rows*last.Bits/32
	key := x.Name + "."
	m.add(key+exl2.SuffixInvPerm, safetensors.I32, []int{x.In}, func(_ string, n int) []byte { return m.permutation(order+"."+exl2.SuffixInvPerm, n) })
	m.add(key+exl2.SuffixScales, safetensors.I32, []int{len(groups), out / 8}, m.words)
	m.add(key+exl2.SuffixWords, safetensors.I32, []int{words, out}, m.words)
	table := &exl2.Matrix{Out: out, Groups: groups}
	for _, t := range table.Tensors() {
		if t.Suffix == exl2.SuffixGroups {
			m.add(key+t.Suffix, t.DType, t.Shape, func(string, int) []byte { return t.Data })
		}
	}
	m.add(key+exl2.SuffixScaleMax, safetensors.F16, []int{len(groups)}, func(string, int) []byte {
		largest := make([]half.F16, len(groups))
		for i, g := range groups {
			largest[i] = half.ToF16(2 * deviation * 3 / float32(int(1)<<(g.Bits-1)))
		}
		return tensor.BytesOf(largest)
	})
}

// Has reports whether the model has a tensor.
func (m *Model) Has(name string) bool { _, ok := m.tensors[name]; return ok }

// Info returns what a tensor's header would say.
func (m *Model) Info(name string) (safetensors.Info, bool) {
	t, ok := m.tensors[name]
	return t.info, ok
}

// Names returns the names of the tensors.
func (m *Model) Names() []string { return slices.Clone(m.names) }

// Get makes a tensor.
func (m *Model) Get(name string) (safetensors.Tensor, error) {
	t, ok := m.tensors[name]
	if !ok {
		return safetensors.Tensor{}, fmt.Errorf("random %s: no tensor %s", m.Shape.Name, name)
	}
	return safetensors.Tensor{Info: t.info, Data: t.data()}, nil
}

// Infos lists the tensors.
func (m *Model) Infos() []safetensors.Info {
	var list []safetensors.Info
	for _, name := range m.names {
		list = append(list, m.tensors[name].info)
	}
	return list
}

// Parse splits a text like llama2-7b@4.0 into shape and bits. The shape is one that Known has, or the path of a
// file whose name ends in .json: a model's config.json.
func Parse(text string) (*Shape, float64, error) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return nil, 0, fmt.Errorf("%q is not like llama2-7b@4.0", text)
	}
	name, weight := text[:at], text[at+1:]
	var bits float64
	if _, err := fmt.Sscanf(weight+"\n", "%f\n", &bits); err != nil {
		return nil, 0, fmt.Errorf("%q: bits per weight %q is not a number", text, weight)
	}
	if _, err := RecipeFor(bits); err != nil {
		return nil, 0, fmt.Errorf("%q: %w", text, err)
	}
	if !strings.HasSuffix(name, ".json") {
		s, err := Known(name)
		return s, bits, err
	}
	s, err := Read(name)
	return s, bits, err
}
