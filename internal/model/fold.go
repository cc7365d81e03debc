package model

import (
	"slices"

	"exl2/internal/arch"
)

// A Fold is a place where channels can be scaled (arch.Folds): a norm, or a matrix, and
// the matrices that read what it makes.
type Fold struct {
	Name     string // of the norm or the matrix, without ".weight"
	Channels int
	Norm     bool
	Reads    []LinearSpec

	headDim, group int // of values: heads of queries that read a head of keys
}

// Channel returns which channel an input of the matrices is.
func (f Fold) Channel(input int) int {
	if f.group <= 1 {
		return input
	}
	return input/f.headDim/f.group*f.headDim + input%f.headDim
}

// Folds lists the places of a module, norms first.
func (m ModuleSpec) Folds(s arch.Spec) (list []Fold) {
	can := s.Folds()
	for _, n := range m.Norms {
		reads := m.readers(s.Names, n.Place)
		if len(reads) > 0 && (can.Norms && m.Kind != Head || can.Head && m.Kind == Head) {
			list = append(list, Fold{Name: n.Name, Channels: n.Cols, Norm: true, Reads: reads})
		}
	}
	n, a := s.Names, s.AttnOf(m.Layer)
	pairs := [][2]string{}
	if can.Values {
		pairs = append(pairs, [2]string{n.V, n.O})
	}
	if can.Units {
		pairs = append(pairs, [2]string{n.Up, n.Down}, [2]string{n.SharedUp, n.SharedDown})
	}
	for _, p := range pairs {
		for _, l := range m.Linears {
			if reads, ok := m.Linear(p[1], l.Expert); ok && l.Part == p[0] {
				f := Fold{Name: l.Name, Channels: l.Out, Reads: []LinearSpec{reads}}
				if p[0] == n.V {
					f.headDim, f.group = a.HeadDim, a.Heads/a.KVHeads
				}
				list = append(list, f)
			}
		}
	}
	return list
}

// FirstReader returns the first of the linears that read what l reads of the stream, l itself perhaps, if l reads the stream: they are quantized with one
// order of rows. Experts that rows choose are none of them, as each reads rows of its own.
func (m ModuleSpec) FirstReader(n arch.Names, l LinearSpec) (first LinearSpec, ok bool) {
	for _, p := range []Place{NormIn, NormMLPIn} {
		list := slices.DeleteFunc(m.readers(n, p), func(o LinearSpec) bool {
			return o.Role == arch.Router || o.Part == n.ExpertGate || o.Part == n.ExpertUp || o.In != l.In
		})
		if slices.ContainsFunc(list, func(o LinearSpec) bool { return o.Name == l.Name }) {
			return list[0], true
		}
	}
	return first, false
}

// readers lists the matrices that read the norm of the stream at a place.
func (m ModuleSpec) readers(n arch.Names, p Place) (list []LinearSpec) {
	_, own := m.Norm(NormMLPIn)
	var parts []string
	switch {
	case m.Kind == Head && p == NormIn:
		parts = []string{n.Head}
	case p == NormIn:
		parts = []string{n.Q, n.K, n.V, n.AttnGate, n.Q1, n.KV1, n.DeltaQ, n.DeltaK, n.DeltaV, n.DeltaZ, n.DeltaA, n.DeltaB, n.ShortB, n.ShortC, n.ShortX}
	}
	_, apart := m.Norm(NormExpertIn)
	switch {
	case p == NormExpertIn:
		parts = []string{n.ExpertGate, n.ExpertUp}
	case p == NormMLPIn && apart:
		parts = []string{n.SharedGate, n.SharedUp}
	case p == NormMLPIn && n.LatentIn != "" && m.Mixture():
		parts = []string{n.Router, n.LatentIn, n.SharedGate, n.SharedUp}
	case p == NormMLPIn || p == NormIn && m.Kind == Parallel && !own:
		parts = append(parts, n.Gate, n.Up, n.Router, n.ExpertGate, n.ExpertUp, n.SharedGate, n.SharedUp, n.SharedRouter)
	}
	for _, l := range slices.Concat(m.Fixed, m.Linears) {
		if slices.Contains(parts, l.Part) {
			list = append(list, l)
		}
	}
	return list
}
