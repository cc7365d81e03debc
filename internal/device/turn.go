package device

import "exl2/internal/tensor"

// NormHeads is what norms Mix is given of queries and keys; these may be absent.
func NormHeads(d Forward, q, k tensor.Tensor, h Heads) {
	switch {
	case h.Q.Nil():
	case h.Whole:
		d.Norm(q, q, h.Q, tensor.Tensor{}, h.Norm)
		if !k.Nil() {
			d.Norm(k, k, h.K, tensor.Tensor{}, h.Norm)
		}
	case k.Nil():
		d.HeadNorm(q, h.Q, q.Cols/h.Q.Cols, h.Norm)
	default:
		d.HeadNorms(q, k, h.Q, h.K, h.Norm)
	}
}

// TurnHeads is NormHeads and Rope of what Mix is given, of heads of so many dimensions.
func TurnHeads(d Forward, q, k, freqs tensor.Tensor, h Heads, r Rope, dim int, b Batch) {
	if !h.Late {
		NormHeads(d, q, k, h)
	}
	if r.Dims > 0 {
		beside := k
		if k.Nil() {
			beside = q.Columns(0, 0)
		}
		d.Rope(q, beside, freqs, dim, r, b)
	}
	if h.Late {
		NormHeads(d, q, k, h)
	}
}
