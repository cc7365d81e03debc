package model

import (
	"cmp"
	"slices"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/exl2"
)

// A Kind says what a module does.
type Kind uint8

// The kinds of modules.
const (
	Embedding Kind = iota
	Attention
	MLP
	Experts  // a mixture of experts
	Parallel // attention and MLP of the same stream
	Head
)

// A LinearSpec is what is known of a linear before it is loaded.
type LinearSpec struct {
	Role    arch.Role
	Part    string // its name in arch.Names
	Expert  int    // whose it is; 0 also of what is no expert's
	Name    string // in the file, without ".weight"
	In, Out int
	Biased  bool
}

// Packable reports whether EXL2 can hold the matrix. One that it cannot stays as it
// is in the source.
func (l LinearSpec) Packable() bool { return l.In%exl2.Align == 0 && l.In <= 1<<16 }

// A Place says what a norm normalizes in its module.
type Place uint8

// The places of norms.
const (
	NormIn    Place = iota // the stream, in front of everything
	NormQuery              // the heads of queries
	NormKey
	NormOut    // what attention adds to the stream, or the embeddings, or what the head reads behind a matrix
	NormMLPIn  // the stream in front of the MLP
	NormMLPOut // what the MLP adds to the stream
	NormQLatent
	NormKVLatent
	NormDelta     // heads of what linear attention gives
	NormValue     // the heads of values
	NormExpertIn  // the stream in front of experts that have a norm of their own
	NormExpertOut // what these give
	NormShared    // what the expert beside them gives
	NormPerLayer  // what a layer's input adds to the stream, or, in the embedding, the inputs
)

// A NormSpec is what is known of a norm's weights before they are loaded.
type NormSpec struct {
	Place Place
	Name  string // in the file, without ".weight"; with an asterisk, a tensor a row
	Norm  device.Norm
	Rows  int // by heads, each with its own
	Cols  int
	Bias  bool // beside the weights
	Plain bool // there are no weights
}

// Tensors lists the norm's tensors in the file.
func (n NormSpec) Tensors() []string {
	if n.Plain {
		return nil
	}
	names := []string{n.Name + ".weight"}
	if n.Bias {
		names = append(names, n.Name+".bias")
	}
	if !strings.Contains(n.Name, "*") {
		return names
	}
	var list []string
	for row := range n.Rows {
		for _, name := range names {
			list = append(list, arch.Expert(name, row))
		}
	}
	return list
}

// Elements counts the norm's weights and biases in memory, where one without weights has
// ones.
func (n NormSpec) Elements() int {
	if n.Bias {
		return 2 * max(n.Rows, 1) * n.Cols
	}
	return max(n.Rows, 1) * n.Cols
}

// A ModuleSpec is what is known of a module before it is loaded.
type ModuleSpec struct {
	Name      string // what it is called in measurements, as "model.layers.0.self_attn"
	Kind      Kind
	Layer     int // of what is between embedding and head
	Linears   []LinearSpec
	Fixed     []LinearSpec // that are never quantized: routers, what makes inputs of layers, and the matrices behind an embedding and in front of a head
	Vectors   []VectorSpec
	Norms     []NormSpec
	Table     string // the embedding's tensor, or the one that a tied head shares, without ".weight"
	Positions string // the embedding's table of learned positions, or empty, without ".weight"
	Inputs    string // the embedding's table of inputs of layers, or empty, without ".weight"
}

// Matrices lists the linears, and behind them those that are never quantized.
func (m ModuleSpec) Matrices() []LinearSpec { return append(slices.Clone(m.Linears), m.Fixed...) }

// Mixture reports whether the module has a mixture of experts, by itself or beside attention.
func (m ModuleSpec) Mixture() bool {
	return m.Kind == Experts || m.Kind == Parallel && len(m.Fixed) > 0
}

// A VectorSpec is what is known of numbers that belong to no linear or norm.
type VectorSpec struct {
	Name string // whole
	Cols int    // how many there are
	Dims []int  // the tensor's shape, or nil: of one dimension; it may hold more than these, which are its first
	Host bool   // no device has them
}

// Shape returns the tensor's shape.
func (v VectorSpec) Shape() []int {
	if v.Dims != nil {
		return v.Dims
	}
	return []int{v.Cols}
}

// Vector returns the spec of numbers by their name in arch.Names.
func (m ModuleSpec) Vector(n arch.Names, part string) (VectorSpec, bool) {
	for _, v := range m.Vectors {
		if v.Name == n.Layer(m.Layer, part) {
			return v, true
		}
	}
	return VectorSpec{}, false
}

// Packable lists the linears that can be quantized.
func (m ModuleSpec) Packable() []LinearSpec {
	return slices.DeleteFunc(slices.Clone(m.Linears), func(l LinearSpec) bool { return !l.Packable() })
}

// Linear returns the spec of the linear that Names calls part, of an expert if it
// is an expert's.
func (m ModuleSpec) Linear(part string, expert int) (LinearSpec, bool) {
	for _, list := range [][]LinearSpec{m.Linears, m.Fixed} {
		for _, l := range list {
			if l.Part == part && l.Expert == expert {
				return l, true
			}
		}
	}
	return LinearSpec{}, false
}

// Norm returns the spec of the norm at a place.
func (m ModuleSpec) Norm(p Place) (NormSpec, bool) {
	for _, n := range m.Norms {
		if n.Place == p {
			return n, true
		}
	}
	return NormSpec{}, false
}

// Layout lists the modules of a model in the order they run.
func Layout(s arch.Spec) []ModuleSpec {
	n := s.Names
	embedding := ModuleSpec{Name: n.Embed, Kind: Embedding, Table: n.Embed, Positions: n.Positions}
	if s.EmbedNorm {
		embedding.Norms = []NormSpec{{Place: NormOut, Name: cmp.Or(n.EmbedNorm, n.Embed), Norm: s.Norm, Rows: 1, Cols: s.Hidden, Bias: s.NormBias && n.EmbedNorm != "", Plain: n.EmbedNorm == ""}}
	}
	if n.EmbedIn != "" {
		embedding.Fixed = []LinearSpec{{Role: arch.Router, Part: n.EmbedIn, Name: n.EmbedIn, In: s.TableWidth(), Out: s.Hidden}}
	}
	if size := s.PerLayer.Size; size > 0 {
		embedding.Inputs = n.PerLayerTable
		embedding.Fixed = []LinearSpec{{Role: arch.Router, Part: n.PerLayerModel, Name: n.PerLayerModel, In: s.Hidden, Out: s.Layers * size}}
		norm := s.Norm
		norm.Eps *= float32(s.Hidden) // of what is √hidden times too large
		embedding.Norms = append(embedding.Norms, NormSpec{Place: NormPerLayer, Name: n.PerLayerNorm, Norm: norm, Rows: 1, Cols: size})
	}
	list := []ModuleSpec{embedding}
	for layer := range s.Layers {
		list = append(list, layerSpecs(s, layer)...)
	}
	head := moduleLayout{Spec: s, m: ModuleSpec{Name: n.Head, Kind: Head}}
	head.m.Linears = []LinearSpec{{Role: arch.Head, Part: n.Head, Name: n.Head, In: s.TableWidth(), Out: s.Vocab, Biased: s.HeadBias}}
	if n.Final != "" {
		head.streamNorm(NormIn, n.Final, s.StreamNorm(n.Final))
	}
	if n.HeadDense != "" {
		head.m.Fixed = []LinearSpec{{Role: arch.Router, Part: n.HeadDense, Name: n.HeadDense, In: s.Hidden, Out: s.TableWidth()}}
		if n.HeadNorm != "" {
			head.streamNorm(NormOut, n.HeadNorm, s.Norm)
		}
	}
	if s.Tied {
		head.m.Table = n.Embed
	}
	return append(list, head.m)
}

// layerSpecs lists the modules of a layer: two sublayers, or both in one, or what it has of them.
func layerSpecs(s arch.Spec, layer int) []ModuleSpec {
	n := s.Names
	a := moduleLayout{s, ModuleSpec{Name: n.Layer(layer, parent(n.O)), Kind: Attention, Layer: layer}}
	f := moduleLayout{s, ModuleSpec{Name: n.Layer(layer, parent(n.Down)), Kind: MLP, Layer: layer}}
	if s.Sparse(layer) { // ExLlamaV2's name, whatever the tensors are called
		f.m.Name, f.m.Kind = n.Layer(layer, "block_sparse_moe"), Experts
	}
	if !s.Caches(layer) {
		a.m.Name = n.Layer(layer, parent(cmp.Or(n.DeltaO, n.ShortO)))
	}
	both := &f
	if s.Parallel {
		a.m.Name, a.m.Kind, both = n.Layer(layer, "parallel_decoder"), Parallel, &a
	}
	a.attention()
	both.feedForward()
	var list []ModuleSpec
	if s.Attends(layer) {
		list = append(list, a.m)
	}
	if !s.Parallel && (s.Sparse(layer) || s.MLPWidth(layer) > 0) {
		list = append(list, f.m)
	}
	return list
}
