package arch

import "slices"

// Stored says that the source keeps matrices otherwise than each as one tensor
// [out, in] of its name with ".weight", and its bias with ".bias".
type Stored struct {
	// Weight and Bias are whole tensor names inside a layer; a "*" stands for
	// the expert, where each has tensors of its own. Bias is empty if there is
	// none.
	Weight, Bias string

	// Holds lists the matrices in the tensor, in order, by their names in Names.
	Holds  []string
	Order  Order
	Groups int // of ByGroup

	// Transposed: the tensor is [in, out] (GPT-2's Conv1D), and Order is that of
	// its columns. Biases are not concerned.
	Transposed bool

	// EitherWay: the shapes in the files say whether the tensor is Transposed, see Orient.
	EitherWay bool

	// Stacked: the tensor, and the bias, have one more dimension in front, the
	// expert. Flat: the expert's rows follow one another instead, [experts·rows,
	// columns] (DBRX).
	Stacked, Flat bool
}

// Order says how the outputs of several matrices follow one another.
type Order uint8

const (
	// Blocks: all of the first matrix, all of the second, …
	Blocks Order = iota
	// ByHead, for q, k and v: for each head of keys the heads of queries that
	// read it, the head of keys, the head of values (GPT-NeoX, InternLM 2).
	ByHead
	// Alternating: an output of each in turn (gpt-oss).
	Alternating
	// ByGroup: of Groups groups, an equal share of the first matrix, of the second, …
	// (CodeGen by quarters, Qwen3-Next by heads).
	ByGroup
)

// Orient sets Transposed of tensors of experts that may be kept either way, by the shapes in
// the files; shape returns nil of a tensor that is not there. One of gate_up and down may be
// square, not both, and all are kept in one way.
func (s *Spec) Orient(shape func(name string) []int) {
	s.Stored = slices.Clone(s.Stored)
	for layer := range s.Layers {
		for _, t := range s.Stored {
			out := len(t.Holds) * s.MoE.Width
			if t.Holds[0] == s.Names.ExpertDown {
				out = s.Hidden
			}
			is := shape(s.Names.Layer(layer, t.Weight))
			if !t.EitherWay || len(is) != 3 || is[1] == is[2] {
				continue
			}
			for i := range s.Stored {
				if s.Stored[i].EitherWay {
					s.Stored[i].Transposed = is[2] == out
				}
			}
			return
		}
	}
}
