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

// A Role says what a linear is in its module.
type Role string

// The roles of linears, by the last part of the names that Llama gives them.
const (
	QProj    Role = "q_proj"
	KProj    Role = "k_proj"
	VProj    Role = "v_proj"
	OProj    Role = "o_proj"
	GateProj Role = "gate_proj"
	UpProj   Role = "up_proj"
	DownProj Role = "down_proj"
	HeadProj Role = "lm_head"
)

// A LinearSpec is what is known of a linear before it is loaded.
type LinearSpec struct {
	Role    Role
	Name    string // in the file, without ".weight"
	In, Out int
	Biased  bool
}

// A NormSpec is what is known of a norm's weights before they are loaded.
type NormSpec struct {
	Name string // in the file, without ".weight"
	Cols int
}

// A ModuleSpec is what is known of a module before it is loaded.
type ModuleSpec struct {
	Name    string // the prefix of its linears' names, as "model.layers.0.self_attn"
	Kind    Kind
	Layer   int // of attention and MLP
	Linears []LinearSpec
	Norms   []NormSpec // in the order they run
	Table   string     // the embedding's tensor, or the one that a tied head shares, without ".weight"
}

// Linear returns the spec of the linear with a role.
func (m ModuleSpec) Linear(r Role) (LinearSpec, bool) {
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
		Name: n.Head, Kind: Head, Norms: []NormSpec{{n.Final, s.Hidden}},
		Linears: []LinearSpec{{Role: HeadProj, Name: n.Head, In: s.Hidden, Out: s.Vocab}},
	}
	if s.Tied {
		head.Table = n.Embed
	}
	return append(list, head)
}

func attentionSpec(s arch.Spec, layer int) ModuleSpec {
	n, a := s.Names, s.Attn
	wide, narrow := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	return ModuleSpec{
		Name: n.Layer(layer, parent(n.O)), Kind: Attention, Layer: layer,
		Norms: []NormSpec{{n.Layer(layer, n.NormIn), s.Hidden}},
		Linears: []LinearSpec{
			{QProj, n.Layer(layer, n.Q), s.Hidden, wide, a.BiasQKV}, {KProj, n.Layer(layer, n.K), s.Hidden, narrow, a.BiasQKV},
			{VProj, n.Layer(layer, n.V), s.Hidden, narrow, a.BiasQKV}, {OProj, n.Layer(layer, n.O), wide, s.Hidden, a.BiasO},
		},
	}
}

func mlpSpec(s arch.Spec, layer int) ModuleSpec {
	n, m := s.Names, s.MLP
	return ModuleSpec{
		Name: n.Layer(layer, parent(n.Down)), Kind: MLP, Layer: layer,
		Norms: []NormSpec{{n.Layer(layer, n.NormMLPIn), s.Hidden}},
		Linears: []LinearSpec{
			{GateProj, n.Layer(layer, n.Gate), s.Hidden, m.Width, m.Bias}, {UpProj, n.Layer(layer, n.Up), s.Hidden, m.Width, m.Bias},
			{DownProj, n.Layer(layer, n.Down), m.Width, s.Hidden, m.Bias},
		},
	}
}

// parent returns name without its last part.
func parent(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return name
}
