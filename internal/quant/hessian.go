// Package quant turns one weight, what is known of its inputs, and one recipe
// into one EXL2 matrix.
//
// The nouns: a [Hessian] gathers the second moments of a linear's inputs. Its
// [Factor] is the inverse's Cholesky factor in activation order. A [Target] is
// the weight to be stored, which may differ from the source's to make up for
// errors before it. Quantizing targets by recipes gives [Results].
package quant

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A Hessian is H = Σ xᵀx over the inputs x of linears that read the same
// activation, and, if there is a reference, how those inputs have drifted from
// what they are in the source model.
type Hessian struct {
	dev device.Quantize
	k   int
	h   tensor.Tensor // [k, k]

	// drift is Σ (x-x̃)ᵀx with x̃ the input in the source model, [k, k]; absent
	// without a reference.
	drift tensor.Tensor
	// short is Σ xᵀe, [k, out], with e = (x̃-x)·W + r̃-r what the residual stream r will
	// lack behind the linear, the only one, whose output is added to it. Where it is
	// known there is no drift.
	short tensor.Tensor

	damping Damping
}

// NewHessian returns an empty Hessian of k inputs.
func NewHessian(d device.Quantize, k int) *Hessian {
	return &Hessian{dev: d, k: k, damping: usual, h: d.Alloc(tensor.F32, k, k)}
}

// Add adds the rows of xs, [r, k] each.
func (h *Hessian) Add(xs ...tensor.Tensor) { AddMoments(h.dev, h.Moments(xs)) }

// Moments lists what Add adds.
func (h *Hessian) Moments(xs []tensor.Tensor) (list []device.Moment) {
	for _, x := range xs {
		if x.Rows > 0 {
			list = append(list, device.Moment{H: h.h, X: x, Y: x})
		}
	}
	return list
}

// AddMoments adds moments, those of one H in the order of the list. Those of x with itself
// may be on one side of the diagonal only, until complete.
func AddMoments(d device.Quantize, list []device.Moment) {
	if s, ok := d.(device.Summer); ok {
		s.Grams(list)
		return
	}
	for _, m := range list {
		d.Gram(m.H, m.X, m.Y)
	}
}

// DriftMoments lists what rows of x - x̃, [r, k] in each of dxs, add to the drift beside
// the rows of xs.
func (h *Hessian) DriftMoments(dxs, xs []tensor.Tensor) (list []device.Moment) {
	for i, x := range xs {
		if x.Rows == 0 {
			continue
		}
		if h.drift.Nil() {
			h.drift = h.dev.Alloc(tensor.F32, h.k, h.k)
		}
		list = append(list, device.Moment{H: h.drift, X: dxs[i], Y: x})
	}
	return list
}

// ShortMoments lists what rows of e, [r, out] in each of es, add to what the stream
// will lack beside the rows of xs.
func (h *Hessian) ShortMoments(xs, es []tensor.Tensor) (list []device.Moment) {
	for i, x := range xs {
		if x.Rows == 0 {
			continue
		}
		if h.short.Nil() {
			h.short = h.dev.Alloc(tensor.F32, h.k, es[i].Cols)
		}
		list = append(list, device.Moment{H: h.short, X: x, Y: es[i]})
	}
	return list
}

// complete puts moments of x with itself on both sides of the diagonal.
func complete(d device.Quantize, hs ...tensor.Tensor) {
	if s, ok := d.(device.Summer); ok {
		s.Mirror(hs)
	}
}

// A Damping is what the factor adds to the diagonal of a Hessian: a share of every
// input's own moment, and a share of the mean of all. What a sum over some rows says of
// two inputs holds for other text only in part. A share of each input's own is the same
// whatever the scale of inputs; a share of the mean is too much for most where few are
// large, and serves inputs that are always zero.
type Damping struct{ Own, Mean float32 }

// usual is ExLlamaV2's.
var usual = Damping{Mean: 0.12}

// Damp has the factor damp by d, not as ExLlamaV2 does.
func (h *Hessian) Damp(d Damping) { h.damping = d }

// Free frees the moments, all that are left.
func (h *Hessian) Free() {
	h.free(&h.h)
	h.free(&h.drift)
	h.free(&h.short)
}

func (h *Hessian) free(t *tensor.Tensor) {
	h.dev.Free(*t)
	*t = tensor.Tensor{}
}

// diagonal brings the diagonal of a matrix to the host.
func diagonal(d device.Quantize, m tensor.Tensor) []float32 {
	t := d.Alloc(tensor.F32, 1, m.Rows)
	defer d.Free(t)
	d.Diagonal(t, m)
	diag := make([]float32, m.Rows)
	d.Download(tensor.BytesOf(diag), t)
	return diag
}
