package model

import (
	"exl2/internal/arch"
	"exl2/internal/tensor"
)

// activations lists what a State of the given size holds.
func activations(spec arch.Spec, z Size, activation tensor.Type) [slots]tensor.Tensor {
	a := spec.Attn
	of := func(t tensor.Type, cols int) tensor.Tensor { return tensor.New(t, z.Rows, cols, nil) }
	queries, keys := spec.Widest()
	wide, narrow, width := of(activation, queries), of(activation, keys), of(activation, spec.MLP.Width)
	hidden := of(activation, spec.Hidden)
	list := [slots]tensor.Tensor{
		Stream: of(tensor.F32, spec.Handed()), Normed: hidden, Query: wide, Key: narrow, Value: narrow, Mixed: wide,
		Gate: width, Up: width, Acted: width, Out: hidden, Logits: tensor.New(tensor.F32, z.Logits, spec.Vocab, nil),
	}
	if n := spec.PerLayer.Size; n > 0 {
		list[LayerInput], list[LayerGate], list[LayerActed] = of(activation, n), of(activation, n), of(activation, n)
		list[LayerStream], list[LayerOut], list[LayerInputs] = hidden, hidden, of(activation, spec.Layers*n)
	}
	if spec.Learned > 0 {
		list[Positions] = of(tensor.F32, spec.Hidden)
	}
	if l := spec.Latent; l.KVRank > 0 {
		dim := l.Rope + l.KVRank
		list[LatentQuery], list[RawQuery], list[LatentKV], list[Latent] = of(activation, l.QRank), wide, of(activation, dim), of(activation, l.KVRank)
		list[Query], list[Key], list[Value] = of(activation, a.Heads*dim), of(activation, dim), tensor.Tensor{}
		list[Context], list[Mixed] = of(activation, a.Heads*l.KVRank), of(activation, a.Heads*l.Value)
	}
	if value := a.ValueWidth(); value != a.HeadDim {
		list[RawValue], list[Narrow] = of(activation, keys/a.HeadDim*value), of(activation, a.Heads*value)
	}
	if spec.Names.HeadDense != "" {
		list[HeadRaw] = of(activation, spec.TableWidth())
	}
	if spec.Names.HeadNorm != "" {
		list[HeadActed] = hidden
	}
	if spec.EmbedWidth > 0 {
		list[Embedded] = of(tensor.F32, spec.EmbedWidth)
	}
	if a.Gate != arch.NoGates {
		list[AttnGate], list[Gated] = of(activation, spec.MostGates()), wide
	}
	recurrentActivations(&list, spec, of, activation)
	expertActivations(&list, spec, z.Rows, activation)
	if spec.MLP.Ungated {
		list[Gate], list[ExpertGate], list[SharedGate] = tensor.Tensor{}, tensor.Tensor{}, tensor.Tensor{}
	}
	return list
}

// recurrentActivations adds those of linear attention, or of convolutions.
func recurrentActivations(list *[slots]tensor.Tensor, spec arch.Spec, of func(t tensor.Type, cols int) tensor.Tensor, activation tensor.Type) {
	d := spec.Delta
	switch {
	case !spec.Recurrent():
	case spec.Short.Kernel > 0:
		for _, slot := range []Slot{ShortB, ShortC, ShortX, ShortOut} {
			list[slot] = of(activation, spec.Hidden)
		}
	default:
		keys, values, rates := of(activation, d.Keys()), of(activation, d.Values()), 2*d.ValueHeads
		if d.Plain {
			rates = d.ValueHeads
		}
		list[DeltaQuery], list[DeltaKey], list[DeltaValue], list[DeltaGate] = keys, keys, values, values
		list[DeltaColumns] = of(tensor.F32, 2*d.Keys()+d.Values())
		list[DeltaRates], list[DeltaMixed], list[DeltaOut] = of(tensor.F32, rates), of(tensor.F32, d.Values()), values
		if !d.Bare && orOne(d.Scales.Z) != 1 {
			list[DeltaScaled], list[DeltaWide] = values, of(tensor.F32, d.Values())
		}
		if spec.Beside {
			list[DeltaResult] = of(activation, spec.Hidden)
		}
	}
}

// expertActivations adds those of mixtures of experts, and takes away what layers
// without one would need if there are none.
func expertActivations(list *[slots]tensor.Tensor, spec arch.Spec, rows int, activation tensor.Type) {
	m := spec.MoE
	if m.Experts == 0 {
		return
	}
	of := func(t tensor.Type, cols int) tensor.Tensor { return tensor.New(t, rows, cols, nil) }
	chosen := func(t tensor.Type, cols int) tensor.Tensor { return tensor.New(t, rows*m.TopK, cols, nil) }
	seen := m.TopK // experts that a row sees
	if m.Shared > 0 && !m.Apart && m.Latent == 0 {
		seen++
	}
	list[Scores], list[Places], list[Weights] = of(tensor.F32, m.Experts), of(tensor.I32, seen), of(tensor.F32, seen)
	list[Order], list[Choice], list[First] = chosen(tensor.I32, 1), chosen(tensor.I32, 1), tensor.New(tensor.I32, 1, m.Experts+1, nil)
	reads := m.Reads(spec.Hidden)
	list[ExpertIn], list[ExpertOut] = chosen(activation, reads), tensor.New(activation, rows*seen, reads, nil)
	if m.Latent > 0 {
		list[ExpertSource], list[LatentMixed], list[Mixture], list[SharedOut] = of(activation, reads), of(activation, reads), of(tensor.F32, reads), of(activation, spec.Hidden)
	}
	if spec.Names.NormMLPOut != "" || m.Early {
		list[Mixture] = of(tensor.F32, spec.Hidden)
	}
	if m.Early {
		list[Weighted] = of(activation, spec.Hidden)
	}
	for _, slot := range []Slot{ExpertGate, ExpertUp, ExpertActed} {
		list[slot] = chosen(activation, m.Width)
	}
	if m.Shared > 0 {
		for _, slot := range []Slot{SharedGate, SharedUp, SharedActed} {
			list[slot] = of(activation, m.Shared)
		}
	}
	if m.SharedGated {
		list[SharedScores] = of(tensor.F32, 1)
	}
	if m.Apart {
		list[ExpertNormed], list[SharedOut], list[Together] = of(activation, spec.Hidden), of(activation, spec.Hidden), of(tensor.F32, spec.Hidden)
	}
	for layer := range spec.Layers {
		if !spec.Sparse(layer) {
			return
		}
	}
	list[Gate], list[Up], list[Acted] = tensor.Tensor{}, tensor.Tensor{}, tensor.Tensor{}
}

// Bytes returns the device memory that NewState takes for z, with activations
// of the given type.
func Bytes(spec arch.Spec, z Size, activation tensor.Type) int {
	sum := 3 * 4 * z.Rows // ids, positions, sequences
	for _, t := range activations(spec, z, activation) {
		sum += t.Bytes()
	}
	return sum
}
