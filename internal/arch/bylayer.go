package arch

import (
	"cmp"
	"math"

	"exl2/internal/device"
)

// What a Spec is in one layer, and what follows from that for all.

// Sinks reports whether a layer has sinks.
func (s Spec) Sinks(layer int) bool {
	return s.Attn.Sinks && (!s.Attn.SinksInWindows || s.Window != nil && s.Window(layer) > 0)
}

// TableWidth returns how wide the embedding's table is.
func (s Spec) TableWidth() int { return cmp.Or(s.EmbedWidth, s.Hidden) }

// NormsOf returns the names of a layer's norms, "" for those that it has not.
func (s Spec) NormsOf(layer int) Norms {
	n := s.Names.Norms
	if s.LinearNorms != nil && s.Linear(layer) {
		n = *s.LinearNorms
	}
	if s.FirstBare && layer == 0 {
		n.NormIn = ""
	}
	if s.MixtureNorm && !s.Sparse(layer) {
		n.NormMLPOut = ""
	}
	return n
}

// Sinusoid returns the rows of the table of positions that Sinusoids speaks of, from LearnedFrom on.
func (s Spec) Sinusoid() []float32 {
	half := s.Hidden / 2
	table := make([]float32, s.Learned*s.Hidden)
	for p := range s.Learned {
		for j := range half {
			sin, cos := math.Sincos(float64(s.LearnedFrom+p) * math.Pow(10000, -float64(j)/float64(half-1)))
			table[p*s.Hidden+j], table[p*s.Hidden+half+j] = float32(sin), float32(cos)
		}
	}
	return table
}

// HeadNorms reports whether a layer normalizes queries and keys.
func (s Spec) HeadNorms(layer int) bool {
	q := s.Attn.QKNorm
	return q.Over != NoNorm && (!q.Roped || s.Rope != nil && s.Rope(layer).Dims > 0)
}

// Passed reports whether nothing of a layer is run, as of those that only see pictures.
func (s Spec) Passed(layer int) bool {
	return !s.Attends(layer) && !s.Sparse(layer) && s.MLPWidth(layer) == 0
}

// StreamNorm returns how a norm of the residual stream computes, by what Names calls it.
func (s Spec) StreamNorm(name string) device.Norm {
	n := s.Names
	switch {
	case s.NormOut != nil && (name == n.NormAttnOut || name == n.NormMLPOut):
		return *s.NormOut
	case s.NormLast != nil && name == n.Final:
		return *s.NormLast
	}
	return s.Norm
}

// MLPWidth returns the width of a layer's MLP, 0 if it has none.
func (s Spec) MLPWidth(layer int) int {
	if s.Widths == nil {
		return s.MLP.Width
	}
	return s.Widths(layer)
}

// ClampsOf returns the limits of a layer's units, as Clamps does.
func (s Spec) ClampsOf(layer int) (mlp, experts device.Clamp) {
	if s.Clamps == nil {
		return s.MLP.Clamp, s.MLP.Clamp
	}
	return s.Clamps(layer)
}

// AttnOf returns the attention of a layer.
func (s Spec) AttnOf(layer int) Attn {
	if s.Attention == nil {
		return s.Attn
	}
	return s.Attention(layer)
}

// Widest returns the most columns that a layer's queries have, and its keys.
func (s Spec) Widest() (queries, keys int) {
	queries, keys = s.Attn.Queries(), s.Attn.Keys()
	for l := 0; s.Attention != nil && l < s.Layers; l++ {
		queries, keys = max(queries, s.Attention(l).Queries()), max(keys, s.Attention(l).Keys())
	}
	return queries, keys
}

// MostGates returns the most columns that a layer's gates have.
func (s Spec) MostGates() (most int) {
	for l := range s.Layers {
		most = max(most, s.AttnOf(l).Gates())
	}
	return most
}

// Attends reports whether a layer has attention.
func (s Spec) Attends(layer int) bool { return s.Unattended == nil || !s.Unattended(layer) }

// Sparse reports whether a layer has a mixture of experts.
func (s Spec) Sparse(layer int) bool {
	return s.MoE.Experts > 0 && (s.Dense == nil || !s.Dense(layer))
}

// Recurs reports whether a layer has linear attention, or convolutions, whose state at a position cannot be had
// but by going through all in front of it.
func (s Spec) Recurs(layer int) bool {
	return (s.Delta.KeyHeads > 0 || s.Short.Kernel > 0) && s.Linear != nil && s.Linear(layer)
}

// Caches reports whether a layer keeps keys and values.
func (s Spec) Caches(layer int) bool {
	return s.Attends(layer) && (s.Beside || !s.Recurs(layer))
}

// Recurrent reports whether any layer does.
func (s Spec) Recurrent() bool {
	_, states := s.Keeping(0, s.Layers)
	return states > 0
}

// Keeping counts the layers from one to another that keep keys and values of what is behind them, and those
// that keep states. Layers without attention keep neither.
func (s Spec) Keeping(from, to int) (caches, states int) {
	for l := from; l < to; l++ {
		if s.Recurs(l) {
			states++
		}
		if s.Caches(l) {
			caches++
		}
	}
	return caches, states
}

// Kept returns which number a layer has among those that keep the same as it: states, or keys of as
// many columns.
func (s Spec) Kept(layer int) int {
	n := 0
	for l := range layer {
		if s.Recurs(l) == s.Recurs(layer) && s.Attends(l) && s.AttnOf(l).Keys() == s.AttnOf(layer).Keys() {
			n++
		}
	}
	return n
}
