// Package quant turns one weight, what is known of its inputs, and one recipe
// into one EXL2 matrix.
//
// The nouns: a [Hessian] gathers the second moments of a linear's inputs. Its
// [Factor] is the inverse's Cholesky factor in activation order. A [Target] is
// the weight to be stored, which may differ from the source's to make up for
// errors before it. Quantizing a target by a recipe gives a [Result].
package quant

import (
	"fmt"
	"sort"

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
	// residual is Σ xᵀ(r̃-r) with r the residual stream, [k, hidden]; absent
	// unless the linear's output is added to that stream.
	residual tensor.Tensor
}

// NewHessian returns an empty Hessian of k inputs.
func NewHessian(d device.Quantize, k int) *Hessian {
	return &Hessian{dev: d, k: k, h: d.Alloc(tensor.F32, k, k)}
}

// Add adds the rows of x, [r, k].
func (h *Hessian) Add(x tensor.Tensor) { h.dev.Gram(h.h, x, x) }

// AddDrift adds rows of x - x̃, [r, k], beside the rows of x.
func (h *Hessian) AddDrift(dx, x tensor.Tensor) {
	if h.drift.Nil() {
		h.drift = h.dev.Alloc(tensor.F32, h.k, h.k)
	}
	h.dev.Gram(h.drift, dx, x)
}

// AddResidual adds rows of r̃ - r, [r, hidden], beside the rows of x.
func (h *Hessian) AddResidual(x, dr tensor.Tensor) {
	if h.residual.Nil() {
		h.residual = h.dev.Alloc(tensor.F32, h.k, dr.Cols)
	}
	h.dev.Gram(h.residual, x, dr)
}

// Free frees the moments, all that are left.
func (h *Hessian) Free() {
	h.free(&h.h)
	h.free(&h.drift)
	h.free(&h.residual)
}

func (h *Hessian) free(t *tensor.Tensor) {
	h.dev.Free(*t)
	*t = tensor.Tensor{}
}

// diagonal returns the elements H[i, i].
func (h *Hessian) diagonal() []float32 {
	diag := make([]float32, h.k)
	flat := h.h.Reshape(h.k*h.k, 1)
	for i := range diag {
		at := i*h.k + i
		h.dev.Download(tensor.BytesOf(diag[i:i+1]), flat.Slice(at, at+1))
	}
	return diag
}

// Damping of the Hessian: the share of its mean diagonal that is added to the
// diagonal (ExLlamaV2's 0.12), and how many dampings are tried, each ten times
// the one before, until the sum is positive definite.
const (
	dampShare = 0.12
	dampTries = 6
)

// maxMoment is the largest element of a Hessian that leaves room in float32 for
// its products with weights.
const maxMoment = 1e30

// A Factor is what quantizing needs of a Hessian.
type Factor struct {
	dev  device.Quantize
	k    int
	Perm []int32 // original row of every stored row: falling H[i, i]

	// Plain reports that no damping made the Hessian positive definite, or that
	// it is too large: weights are then rounded without error feedback. Such a
	// matrix measures no loss either, so the identity takes its place: errors are
	// those of the weights.
	Plain bool
	// Damp is what was added to the diagonal.
	Damp float32

	perm       tensor.Tensor // I32 [1, k]
	u          tensor.Tensor // [k, k], stored order
	h          tensor.Tensor // [k, k], damped, stored order; the identity if Plain
	importance tensor.Tensor // [1, k]: 1/u[i,i]²
	drift      tensor.Tensor // [k, k]: the Hessian's, columns in stored order, or absent
	residual   tensor.Tensor // [k, hidden], stored order, or absent
}

// Factor orders, damps and factors the Hessian. It frees the moments one by one
// as it goes: those of a wide layer fill gigabytes. h must not be used after it.
func (h *Hessian) Factor() (*Factor, error) {
	d := h.dev
	diag := h.diagonal()
	f := &Factor{dev: d, k: h.k, Perm: activationOrder(diag)}
	f.perm = d.Alloc(tensor.I32, 1, h.k)
	d.Upload(f.perm, tensor.BytesOf(f.Perm))
	f.h = d.Alloc(tensor.F32, h.k, h.k)
	d.Take(f.h, h.h, f.perm, f.perm)
	h.free(&h.h)
	f.u = d.Alloc(tensor.F32, h.k, h.k)
	f.factor(diag)
	f.weigh()
	if !h.drift.Nil() && !f.Plain {
		f.drift = d.Alloc(tensor.F32, h.k, h.k)
		d.Take(f.drift, h.drift, tensor.Tensor{}, f.perm)
		h.free(&h.drift)
	}
	if !h.residual.Nil() && !f.Plain {
		f.residual = d.Alloc(tensor.F32, h.k, h.residual.Cols)
		d.Take(f.residual, h.residual, f.perm, tensor.Tensor{})
	}
	if err := d.Sync(); err != nil {
		f.Free()
		return nil, fmt.Errorf("factor a Hessian of %d inputs: %w", h.k, err)
	}
	return f, nil
}

// activationOrder sorts rows by falling diagonal, the first among equals first.
func activationOrder(diag []float32) []int32 {
	perm := make([]int32, len(diag))
	for i := range perm {
		perm[i] = int32(i)
	}
	sort.SliceStable(perm, func(a, b int) bool { return diag[perm[a]] > diag[perm[b]] })
	return perm
}

// mean returns the mean of the diagonal, or 1 if it is all zeros or not finite.
func mean(diag []float32) float32 {
	sum := 0.0
	for _, v := range diag {
		sum += float64(v)
	}
	if m := float32(sum / float64(len(diag))); m > 0 && m-m == 0 {
		return m
	}
	return 1
}

// factor finds the least damping that works and adds it to the diagonal of h.
func (f *Factor) factor(diag []float32) {
	if largest := diag[f.Perm[0]]; !(largest <= maxMoment) {
		f.plain()
		return
	}
	f.Damp = dampShare * mean(diag)
	for range dampTries {
		if f.dev.InverseFactor(f.u, f.h, f.Damp) {
			f.addDiagonal(f.h, f.Damp)
			return
		}
		f.Damp *= 10
	}
	f.plain()
}

// plain puts the identity in the place of a matrix that cannot be factored, and
// of its factor.
func (f *Factor) plain() {
	f.Plain, f.Damp = true, 0
	for _, m := range []tensor.Tensor{f.u, f.h} {
		f.dev.Upload(m, make([]byte, m.Bytes()))
		f.addDiagonal(m, 1)
	}
}

// addDiagonal adds v to the diagonal of m.
func (f *Factor) addDiagonal(m tensor.Tensor, v float32) {
	flat := m.Reshape(f.k*f.k, 1)
	var x [1]float32
	for i := range f.k {
		at := flat.Slice(i*f.k+i, i*f.k+i+1)
		f.dev.Download(tensor.BytesOf(x[:]), at)
		x[0] += v
		f.dev.Upload(at, tensor.BytesOf(x[:]))
	}
}

// weigh computes how much each row's squared error costs: error feedback turns
// an error of row i into a loss of its square over u[i,i]².
func (f *Factor) weigh() {
	weights := make([]float32, f.k)
	flat := f.u.Reshape(f.k*f.k, 1)
	for i := range weights {
		f.dev.Download(tensor.BytesOf(weights[i:i+1]), flat.Slice(i*f.k+i, i*f.k+i+1))
		weights[i] = 1 / (weights[i] * weights[i])
	}
	f.importance = f.dev.Alloc(tensor.F32, 1, f.k)
	f.dev.Upload(f.importance, tensor.BytesOf(weights))
}

// Free frees the factor.
func (f *Factor) Free() {
	for _, t := range []tensor.Tensor{f.perm, f.u, f.h, f.importance, f.drift, f.residual} {
		f.dev.Free(t)
	}
}
