package device

import "exl2/internal/tensor"

// Backward is what a backward pass needs beyond Forward; a device may lack it.
// Gradients are F32 whatever the activation type; each method adds to the
// gradients it is given, so that values that are used twice need no care. x, y
// and other values are of the activation type unless said otherwise.
type Backward interface {
	Device

	// MatMulBack is dx += dy·w for y = x·wᵀ, with w [dy.Cols, dx.Cols] F32, F16
	// or BF16.
	MatMulBack(dx, dy, w tensor.Tensor)

	// NormBack is the gradient of y = Norm(x): dx += J(x)ᵀ·dy by rows; x is F32
	// or of the activation type. The gradients of w and bias are not computed.
	NormBack(dx, dy, x, w tensor.Tensor, n Norm)

	// ActMulBack is the gradient of y = act(gate)·up, or, where up and dup are
	// absent, of act(gate).
	ActMulBack(dgate, dup, dy, gate, up tensor.Tensor, a Act)

	// HeadGatesBack is the gradient of HeadGates.
	HeadGatesBack(dx, dgate, dy, x, gate tensor.Tensor, a Act)

	// XIELUBack is the gradient of XIELU, as if u.Least were 0.
	XIELUBack(dx, dy, x tensor.Tensor, u XIELU)

	// ClampMulBack is the gradient of ClampMul: a number that is limited has none.
	ClampMulBack(dgate, dup, dy, gate, up tensor.Tensor, c Clamp)

	// ClipBack replaces dx, the gradient of what Clip makes of x, by that of x: zero
	// where it is beyond the limit.
	ClipBack(dx, x tensor.Tensor, limit float32)

	// RopeBack replaces dq and dk, gradients of what Rope gives, by those of what
	// it was given: the opposite rotation.
	RopeBack(dq, dk, freqs tensor.Tensor, headDim int, r Rope, b Batch)

	// AttendBack is the gradient of Attend over rows that are whole sequences, in
	// runs of b.Span from position 0 on: q, k and v are what was attended with. Of
	// latents (a.Latent), v and dv are the columns of k and dk that are values.
	AttendBack(dq, dk, dv, dy, q, k, v tensor.Tensor, a Attend, b Batch)

	// GatedDeltaBack is the gradient of GatedDelta over rows that are whole sequences, in runs of
	// b.Span from position 0 on. columns is what that has left there, and dcolumns, of its shape,
	// room for their gradients.
	GatedDeltaBack(dq, dk, dv, da, db, dcolumns, dy, columns, q, k, v, a, b tensor.Tensor, d GatedDelta, batch Batch)

	// GatedDeltaBackBytes is about what that takes of the device's memory, for so many runs, and keeps.
	GatedDeltaBackBytes(d GatedDelta, runs, span int) int

	// ShortConvBack is the gradient of ShortConv over rows that are whole sequences, in runs of b.Span from position 0 on.
	// room is F32 of y's shape, and is written.
	ShortConvBack(db, dc, dx, room, dy, b, c, x tensor.Tensor, s ShortConv, batch Batch)

	// CombineBack is the gradient of Combine, whose places are different ones:
	// dx[places[r, k]] += scale·weights[r, k]·dy[r].
	CombineBack(dx, dy, places, weights tensor.Tensor, scale float32)

	// CapBack replaces dx, the gradient of Cap's result, by that of its argument,
	// given the result y; both F32.
	CapBack(dx, y tensor.Tensor, scale, softcap float32)

	// SampleBack draws, for every row of logits, F32 [rows, n], a column from
	// softmax(logits) by the row's number in random, F32 [1, rows] in [0, 1): the
	// first whose cumulative probability exceeds it. The gradient of -log p of
	// that column, softmax(logits) less one there, replaces the logits.
	SampleBack(logits, random tensor.Tensor)
}
