package model

import (
	"strings"

	"exl2/internal/arch"
)

// A Kind says what a module does.
type Kind uint8

// The kinds of modules.
const (
	Embedding Kind = iota
	Attention
	MLP
	Head
)

// A LinearSpec is what is known of a linear before it is loaded.
type LinearSpec struct {
	Role    arch.Role
	Name    string // in the file, without ".weight"
	In, Out int
	Biased  bool
}

// A Place says what a norm normalizes in its module.
type Place uint8

// The places of norms.
const (
	NormIn    Place = iota // the stream, in front of everything
	NormQuery              // the heads of queries
	NormKey
	NormOut // what is added to the stream
)

// A NormSpec is what is known of a norm's weights before they are loaded.
type NormSpec struct {
	Place Place
	Name  string // in the file, without ".weight"
	Cols  int
}

// A ModuleSpec is what is known of a module before it is loaded.
type ModuleSpec struct {
	Name    string // the prefix of its linears' names, as "model.layers.0.self_attn"
	Kind    Kind
	Layer   int // of attention and MLP
	Linears []LinearSpec
	Norms   []NormSpec
	Table   string // the embedding's tensor, or the one that a tied head shares, without ".weight"
}

// Linear returns the spec of the linear with a role.
func (m ModuleSpec) Linear(r arch.Role) (LinearSpec, bool) {
	for _, l := range m.Linears {
		if l.Role == r {
			return l, true
		}
	}
	return LinearSpec{}, false
}

// Layout lists the modules of a model in the order they run.
func Layout(s arch.Spec) []ModuleSpec {
	n := s.Names
	list := []ModuleSpec{{Name: n.Embed, Kind: Embedding, Table: n.Embed}}
	for layer := range s.Layers {
		list = append(list, attentionSpec(s, layer), mlpSpec(s, layer))
	}
	head := ModuleSpec{
		Name: n.Head, Kind: Head, Norms: []NormSpec{{NormIn, n.Final, s.Hidden}},
		Linears: []LinearSpec{{Role: arch.Head, Name: n.Head, In: s.Hidden, Out: s.Vocab}},
	}
	if s.Tied {
		head.Table = n.Embed
	}
	return append(list, head)
}

func attentionSpec(s arch.Spec, layer int) ModuleSpec {
	n, a := s.Names, s.Attn
	name := func(part string) string { return n.Layer(layer, part) }
	wide, narrow := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	m := ModuleSpec{
		Name: name(parent(n.O)), Kind: Attention, Layer: layer,
		Linears: []LinearSpec{
			{arch.Q, name(n.Q), s.Hidden, wide, a.BiasQKV}, {arch.K, name(n.K), s.Hidden, narrow, a.BiasQKV},
			{arch.V, name(n.V), s.Hidden, narrow, a.BiasQKV}, {arch.O, name(n.O), wide, s.Hidden, a.BiasO},
		},
	}
	m.addNorm(NormIn, layer, n, n.NormIn, s.Hidden)
	m.addNorm(NormQuery, layer, n, n.QNorm, a.HeadDim)
	m.addNorm(NormKey, layer, n, n.KNorm, a.HeadDim)
	m.addNorm(NormOut, layer, n, n.NormAttnOut, s.Hidden)
	return m
}

func mlpSpec(s arch.Spec, layer int) ModuleSpec {
	n, p := s.Names, s.MLP
	name := func(part string) string { return n.Layer(layer, part) }
	m := ModuleSpec{
		Name: name(parent(n.Down)), Kind: MLP, Layer: layer,
		Linears: []LinearSpec{
			{arch.Gate, name(n.Gate), s.Hidden, p.Width, p.Bias}, {arch.Up, name(n.Up), s.Hidden, p.Width, p.Bias},
			{arch.Down, name(n.Down), p.Width, s.Hidden, p.Bias},
		},
	}
	m.addNorm(NormIn, layer, n, n.NormMLPIn, s.Hidden)
	m.addNorm(NormOut, layer, n, n.NormMLPOut, s.Hidden)
	return m
}

// addNorm adds a norm if the architecture has it.
func (m *ModuleSpec) addNorm(p Place, layer int, n arch.Names, part string, cols int) {
	if part != "" {
		m.Norms = append(m.Norms, NormSpec{p, n.Layer(layer, part), cols})
	}
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

// parent returns name without its last part.
func parent(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return name
}
