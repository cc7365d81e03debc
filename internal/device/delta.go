package device

import (
	"cmp"

	"exl2/internal/tensor"
)

// Linear is linear attention, which keeps of what is behind a position a state of one size.
type Linear interface {
	// GatedDelta is linear attention by the gated delta rule (Gated Delta Networks, arXiv
	// 2412.06464, equation 10). Columns of q, k and v, [rows, heads·dimension], are convolved and go
	// through silu, heads of q and k are divided by √(their squares' sum + 1e-6), and q by √KeyDim,
	// too. With g = exp(-exp(decay)·softplus(a + bias)) and β = σ(b), a and b F32 [rows,
	// ValueHeads], row after row and by heads of values, of which ValueHeads/KeyHeads share a head
	// of q and k,
	//
	//	S = g·S; S += (β·(v - S·k))·kᵀ; y = S·q
	//
	// y is F32 [rows, ValueHeads·ValueDim]. A run (Batch.Span) that begins at position 0 begins with
	// zeros; any other goes on from what m has of its sequence, which what was in front of it
	// has left there. Each sequence has one run. columns, F32 [rows, Columns], becomes what heads
	// of q and k, and columns of v, are then.
	GatedDelta(y, columns, q, k, v, a, b tensor.Tensor, d GatedDelta, m DeltaState, batch Batch)

	// HeadNormGated is y = norm(x)·(w + n.Offset)·silu(gate), by heads of x, F32 [rows, heads·w.Cols], each divided
	// by its root mean square as Norm does. y may be gate.
	HeadNormGated(y, x, gate, w tensor.Tensor, n Norm)

	// GatedNorm is y = norm(x·silu(gate))·(w + n.Offset), x F32, w F32 [1, x.Cols], of groups of so many columns, each divided
	// by its root mean square as Norm does. y may be gate.
	GatedNorm(y, x, gate, w tensor.Tensor, group int, n Norm)

	// ShortConv is y = c·(bias + Σ w[i]·u[t-Kernel+1+i]) with u = b·x, by columns (models/lfm2/modeling_lfm2.py). Of
	// runs it is what GatedDelta is; inputs, F32 [sequences, (Kernel-1)·y.Cols], has the last u of sequences, oldest first, and is
	// absent if Kernel is 1.
	ShortConv(y, b, c, x tensor.Tensor, s ShortConv, inputs tensor.Tensor, batch Batch)
}

// ShortConv describes a gated convolution of each column.
type ShortConv struct {
	Kernel     int
	Conv, Bias tensor.Tensor // w, F32 [columns, Kernel], and F32 [1, columns] or absent
}

// GatedDelta describes linear attention by the gated delta rule, or, if Plain, by that of Mamba-2.
type GatedDelta struct {
	KeyHeads, ValueHeads, KeyDim, ValueDim int

	// Kernel is how many positions the convolution adds up: y[t] = bias + Σ w[i]·x[t-Kernel+1+i], with
	// the weights Conv, F32 [columns of q, k and v, Kernel], and ConvBias, F32 [1, columns], which may be absent.
	Kernel         int
	Conv, ConvBias tensor.Tensor

	Decay, Bias tensor.Tensor // F32 [1, ValueHeads]

	Plain bool
	Skip  tensor.Tensor // of Plain, F32 [1, ValueHeads]
	Least float32       // of Δ, if Plain
	Most  float32       // of β, which is Most·σ(b); 0 means 1
}

// Limit returns Least if Plain, and Most.
func (d GatedDelta) Limit() float32 {
	if d.Plain {
		return d.Least
	}
	return cmp.Or(d.Most, 1)
}

// Keys and Values are the columns of q, or k, and of v.
func (d GatedDelta) Keys() int { return d.KeyHeads * d.KeyDim }

// Values is documented with Keys.
func (d GatedDelta) Values() int { return d.ValueHeads * d.ValueDim }

// Columns are those of q, k and v together.
func (d GatedDelta) Columns() int { return 2*d.Keys() + d.Values() }

// StateSize is the elements of a sequence's state.
func (d GatedDelta) StateSize() int { return d.Values() * d.KeyDim }

// DeltaState is what a layer of linear attention knows of sequences, a row each.
type DeltaState struct {
	State  tensor.Tensor // F32 [sequences, ValueHeads·ValueDim·KeyDim]: S by heads
	Inputs tensor.Tensor // of the activation type [sequences, (Kernel-1)·Columns]: the last q, k and v, oldest first, each as one row; absent if Kernel is 1
}
