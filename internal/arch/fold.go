package arch

import "exl2/internal/device"

// Folds says where channels can be scaled without changing what a model computes: what
// makes them is divided, and what reads them multiplied.
type Folds struct {
	Norms  bool // of the stream, with the matrices that read them
	Head   bool // the last norm, with the head
	Values bool // v with o
	Units  bool // up with down
}

// Rotates reports whether the residual stream can be multiplied by an orthogonal matrix,
// with everything that writes and reads it, without changing what the model computes: all
// of its norms are RMS norms in front of what reads it, whose weights then join the
// matrices, and nobody else knows the stream, as pictures do that are put there.
func (s Spec) Rotates() bool {
	n := s.Names
	return s.Norm.Kind == device.RMS && !s.NormBias && !s.NormPlain && !s.HeadUnit && s.Learned == 0 &&
		s.Indexer == "" && s.MoE.Latent == 0 && n.HeadDense == "" && n.NormAttnOut == "" && n.NormMLPOut == "" && table[s.Arch].scope == Whole
}

// Folds returns where the architecture allows that:
//
//   - norms with weights that multiply as they are (Norm.Offset 0; Gemma's and Nemotron's
//     are differences from one, which no power of two scales exactly), unless an indexer reads
//     what they make, too. Biases are scaled, too;
//   - the head unless its rows are normalized, or another matrix is in front;
//   - values unless they are clipped, normalized, made of a latent, or narrower than keys;
//   - units that are linear in up, which those without a gate, or clamped, are not.
//
// Norms behind sublayers, norms of heads and multipliers of the stream are not concerned.
func (s Spec) Folds() Folds {
	norms := s.Norm.Offset == 0 && !s.NormPlain && s.Indexer == ""
	return Folds{
		Norms:  norms,
		Head:   norms && !s.HeadUnit && s.Names.HeadDense == "",
		Values: s.Attn.Clip == 0 && s.Latent.KVRank == 0 && !s.Attn.ValueNorm && s.Attn.ValueDim == 0,
		Units:  !s.MLP.Ungated && s.MLP.Clamp.Limit == 0 && s.Clamps == nil,
	}
}
