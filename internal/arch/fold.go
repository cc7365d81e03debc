package arch

// Folds says where channels can be scaled without changing what a model computes: what
// makes them is divided, and what reads them multiplied.
type Folds struct {
	Norms  bool // of the stream, with the matrices that read them
	Head   bool // the last norm, with the head
	Values bool // v with o
	Units  bool // up with down
}

// Folds returns where the architecture allows that:
//
//   - norms with weights that multiply as they are (Norm.Offset 0; Gemma's and Nemotron's
//     are differences from one, which no power of two scales exactly). Biases are scaled, too;
//   - the head unless its rows are normalized;
//   - values unless they are clipped, or made of a latent;
//   - units that are linear in up, which those without a gate, or clamped, are not.
//
// Norms behind sublayers, norms of heads and multipliers of the stream are not concerned.
func (s Spec) Folds() Folds {
	norms := s.Norm.Offset == 0 && !s.NormPlain
	return Folds{
		Norms:  norms,
		Head:   norms && !s.HeadUnit,
		Values: s.Attn.Clip == 0 && s.Latent.KVRank == 0,
		Units:  !s.MLP.Ungated && s.MLP.Clamp.Limit == 0,
	}
}
