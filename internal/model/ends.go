package model

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// embedding makes the first module: ids, and positions where the model has learned
// them, to residual stream.
func (b *builder) embedding(m *Module) {
	table, scale := b.own(m, b.matrix(m.Table, b.tableRows(m.Table), b.Spec.TableWidth())), orOne(b.Spec.EmbedScale)
	m.Steps = []Step{{Run: func(s *State) { s.Dev.Embed(s.At(Residual), table, s.IDs, scale) }}}
	if part := b.Spec.Names.EmbedIn; part != "" {
		in := b.linear(m, part)
		m.fixed = append(m.fixed, in)
		m.Steps[0].Run = func(s *State) {
			s.Dev.Embed(s.At(Embedded), table, s.IDs, scale)
			s.Dev.Copy(s.At(HeadRaw), s.At(Embedded))
			in.W.mul(s.Dev, s.At(Residual), s.At(HeadRaw), in.Bias)
		}
	}
	if norm := b.norm(m, NormOut); !norm.none() {
		m.Steps = append(m.Steps, Step{Run: func(s *State) { norm.apply(s, Residual, Residual) }})
	}
	if b.Spec.PerLayer.Size > 0 {
		m.Steps = append(m.Steps, Step{Run: b.layerInputs(m).run})
	}
	if b.Spec.Learned == 0 {
		return
	}
	positions := b.positions(m)
	if b.err != nil {
		return
	}
	m.Steps = append(m.Steps, Step{Run: func(s *State) {
		s.Dev.Embed(s.At(Positions), positions, s.Batch.Pos, 1)
		s.Dev.AddScaled(s.At(Residual), s.At(Positions), 1)
	}})
}

// positions makes the rows of the table of positions that are used.
func (b *builder) positions(m *Module) tensor.Tensor {
	s := b.Spec
	if s.Sinusoids {
		return b.own(m, b.upload(tensor.F32, s.Learned, s.Hidden, tensor.BytesOf(s.Sinusoid())))
	}
	rows := b.own(m, b.matrix(m.Positions, s.LearnedFrom+s.Learned, s.Hidden))
	if b.err != nil {
		return rows
	}
	return rows.Slice(s.LearnedFrom, s.LearnedFrom+s.Learned)
}

// tableRows returns how many rows the embedding table has: files may keep those behind the vocabulary apart.
func (b *builder) tableRows(name string) int {
	if info, ok := b.Files.Info(name + ".weight"); ok && len(info.Shape) == 2 && info.Shape[0] == b.Spec.Vocab {
		return b.Spec.Vocab
	}
	return b.Spec.Vocab + b.Spec.Beyond
}

// head makes the last module: norm and logits.
func (b *builder) head(m *Module) {
	h := &head{in: b.norm(m, NormIn), scale: orOne(b.Spec.LogitScale), softcap: b.Spec.LogitCap}
	out := b.linear(m, b.Spec.Names.Head)
	if part := b.Spec.Names.HeadDense; part != "" {
		h.dense, h.act, h.last = b.linear(m, part), b.Spec.HeadAct, b.norm(m, NormOut)
		m.fixed = append(m.fixed, h.dense)
	}
	m.Chained = true
	m.Steps = []Step{
		{Run: h.norm, Back: h.normBack, Keep: []Slot{Residual}, Sites: []Site{{Reads: Normed, Linears: []*Linear{out}, Writes: []Slot{Logits}}}, in: &input{h.in}},
		{Run: h.cap, Back: h.capBack},
	}
	if h.dense != nil {
		m.Steps[0].in = nil // which is not all that is in front of the product
	}
	if h.dense != nil && h.last.none() {
		m.Steps[0].Sites[0].Reads = HeadRaw
	}
}

// head is what a head has beside its linear.
type head struct {
	in             Norm
	scale, softcap float32

	dense *Linear // in front of the head's own, or nil
	act   device.Act
	last  Norm
}

func (h *head) norm(s *State) {
	h.in.apply(s, Normed, Residual)
	if h.dense == nil {
		return
	}
	h.dense.W.mul(s.Dev, s.At(HeadRaw), s.At(Normed), h.dense.Bias)
	if h.last.none() {
		return
	}
	s.Dev.ActMul(s.At(HeadActed), s.At(HeadRaw), tensor.Tensor{}, h.act)
	h.last.apply(s, Normed, HeadActed)
}

func (h *head) normBack(s, g *State, kept []tensor.Tensor) {
	if h.dense != nil {
		d := backward(g)
		if !h.last.none() {
			d.Clear(g.At(HeadActed))
			d.Clear(g.At(HeadRaw))
			h.last.back(g, Normed, HeadActed, s.At(HeadActed))
			d.ActMulBack(g.At(HeadRaw), tensor.Tensor{}, g.At(HeadActed), s.At(HeadRaw), tensor.Tensor{}, h.act)
		}
		d.Clear(g.At(Normed))
		d.MatMulBack(g.At(Normed), g.At(HeadRaw), h.dense.W.(Dense).Tensor)
	}
	h.in.back(g, Normed, Residual, kept[0])
}

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
