package device

import "exl2/internal/tensor"

// Train is what sampling text and training codes on it need beyond Backward.
type Train interface {
	Backward

	// Draw stores in ids, I32 [1, rows], a column of every row of logits, F32
	// [rows, n], drawn from softmax(logits) as SampleBack draws it. The logits are of
	// no use afterwards.
	Draw(ids, logits, random tensor.Tensor)

	// DivergenceBack stores the KL divergence of softmax(logits) from
	// softmax(reference) of every row, in nats, in divergence, F32 [1, rows], and
	// replaces the logits by its gradient, softmax(logits) - softmax(reference).
	// logits and reference are F32 [rows, n].
	DivergenceBack(divergence, logits, reference tensor.Tensor)

	// ProductsBack is the whole way back through products of one x: dx += Σ dy·w and
	// dw += dyᵀ·x, with x of the activation type. Unlike MatMulBack and Gram it may
	// round dy to the activation type, lifted by a power of two to where that has most
	// bits. dx may be absent.
	ProductsBack(dx tensor.Tensor, list []Passed, x tensor.Tensor)

	// AttendBackHalf is AttendBack, given what Attend has computed, y. It may round dy
	// as ProductsBack does, and the softmax's results and their gradients.
	AttendBackHalf(dq, dk, dv, dy, y, q, k, v tensor.Tensor, a Attend, b Batch)

	// RoundLatent stores the weights that a latent stands for in w, [out, in] of the
	// activation type: nearest codes, ties to even, times scales, rounded to fp16.
	RoundLatent(w tensor.Tensor, l Latent)

	// TrainLatent takes a step of Adam (Kingma and Ba 2015) along dw, F32 [out, in],
	// the gradient of the weights, which is passed on through rounding as if there
	// were none (Bengio et al. 2013), and stores the new weights in w, as RoundLatent
	// does. First and second are the moments, BF16 [out, in], which the step uses before
	// it rounds them.
	TrainLatent(w tensor.Tensor, l Latent, first, second, dw tensor.Tensor, a Adam)
}

// Passed is a product y = x·wᵀ on the way back.
type Passed struct {
	DY tensor.Tensor // F32 [rows, out]
	W  tensor.Tensor // [out, in], of the activation type
	DW tensor.Tensor // F32 [out, in]
}

// A Latent is a quantized matrix whose codes can be trained, in the order that
// products have: rows are outputs.
type Latent struct {
	V     tensor.Tensor // F32 [out, in]: codes less zero, not rounded
	Scale tensor.Tensor // F32 [out, groups]
	Group tensor.Tensor // I32 [1, in]: of every input
	Zero  tensor.Tensor // F32 [1, groups]: the code of 0, 2^(bits-1)
}

// Reach is how far beyond the first and the last code a latent may be: it stays
// short of what rounds to another code.
const Reach = 0.45

// Adam is a step of that method: with g = dw·scale, m = β₁m + (1-β₁)g,
// s = β₂s + (1-β₂)g², v -= Rate·(m·First)/(√(s·Second) + Eps), kept within Reach; then v
// goes a share Pull of its way to the code that it rounds to.
type Adam struct {
	Rate, Beta1, Beta2 float32
	First, Second      float32 // 1/(1-β₁ᵗ) and 1/(1-β₂ᵗ) in step t
	Eps                float32
	Pull               float32
}
