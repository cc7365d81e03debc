package model

import (
	"exl2/internal/tensor"
)

// embedding makes the first module: ids, and positions where the model has learned
// them, to residual stream.
func (b *builder) embedding(m *Module) {
	table, scale := b.own(m, b.matrix(m.Table, b.Spec.Vocab, b.Spec.Hidden)), orOne(b.Spec.EmbedScale)
	m.Steps = []Step{{Run: func(s *State) { s.Dev.Embed(s.At(Residual), table, s.IDs, scale) }}}
	if norm := b.norm(m, NormOut); !norm.none() {
		m.Steps = append(m.Steps, Step{Run: func(s *State) { norm.apply(s, Residual, Residual) }})
	}
	if b.Spec.PerLayer.Size > 0 {
		m.Steps = append(m.Steps, Step{Run: b.layerInputs(m).run})
	}
	if b.Spec.Learned == 0 {
		return
	}
	first, last := b.Spec.LearnedFrom, b.Spec.LearnedFrom+b.Spec.Learned
	rows := b.own(m, b.matrix(m.Positions, last, b.Spec.Hidden))
	if b.err != nil {
		return
	}
	positions := rows.Slice(first, last)
	m.Steps = append(m.Steps, Step{Run: func(s *State) {
		s.Dev.Embed(s.At(Positions), positions, s.Batch.Pos, 1)
		s.Dev.AddScaled(s.At(Residual), s.At(Positions), 1)
	}})
}

// head makes the last module: norm and logits.
func (b *builder) head(m *Module) {
	h := &head{in: b.norm(m, NormIn), scale: orOne(b.Spec.LogitScale), softcap: b.Spec.LogitCap}
	out := b.linear(m, b.Spec.Names.Head)
	m.Chained = true
	m.Steps = []Step{
		{Run: h.norm, Back: h.normBack, Keep: []Slot{Residual}, Sites: []Site{{Reads: Normed, Linears: []*Linear{out}, Writes: []Slot{Logits}}}, norm: h.in},
		{Run: h.cap, Back: h.capBack},
	}
}

// head is what a head has beside its linear.
type head struct {
	in             Norm
	scale, softcap float32
}

func (h *head) norm(s *State) { h.in.apply(s, Normed, Residual) }

func (h *head) normBack(s, g *State, kept []tensor.Tensor) { h.in.back(g, Normed, Residual, kept[0]) }

func (h *head) capped() bool { return h.scale != 1 || h.softcap != 0 }

func (h *head) cap(s *State) {
	if h.capped() {
		s.Dev.Cap(s.At(Logits), h.scale, h.softcap)
	}
}

func (h *head) capBack(s, g *State, _ []tensor.Tensor) {
	if h.capped() {
		backward(g).CapBack(g.At(Logits), s.At(Logits), h.scale, h.softcap)
	}
}
