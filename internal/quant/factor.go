package quant

import (
	"fmt"
	"math"
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// dampTries is how many shares of the mean diagonal are tried, each ten times the one
// before, until the sum is positive definite.
const dampTries = 6

// maxMoment is the largest element of a Hessian that leaves room in float32 for
// its products with weights.
const maxMoment = 1e30

// A Factor is what quantizing needs of a Hessian.
type Factor struct {
	dev  device.Quantize
	k    int
	Perm []int32 // original row of every stored row: falling H[i, i]

	// Nearest reports that no damping made the Hessian positive definite, or that
	// it is too large: weights are then rounded without error feedback. Such a
	// matrix measures no loss either, so the identity takes its place: errors are
	// those of the weights.
	Nearest bool
	// Damp is what was added to the diagonal beside inputs' own moments.
	Damp float32

	device.Factor               // stored order; H damped, the identity if Nearest
	perm          tensor.Tensor // I32 [1, k]
}

// Factor orders, damps and factors the Hessian, whose moments it frees: those of a
// wide layer fill gigabytes. h holds none after it, whether it succeeds or not.
func (h *Hessian) Factor() (*Factor, error) {
	defer h.Free()
	d := h.dev
	diag := diagonal(d, h.h)
	f := &Factor{dev: d, k: h.k, Perm: activationOrder(diag)}
	f.perm = d.Alloc(tensor.I32, 1, h.k)
	d.Upload(f.perm, tensor.BytesOf(f.Perm))
	f.H = device.Blank(d, tensor.F32, h.k, h.k)
	complete(d, h.h)
	d.Take(f.H, h.h, f.perm, f.perm)
	h.free(&h.h)
	if h.damping.Own > 0 {
		f.raise(h.damping.Own)
	}
	f.U = device.Blank(d, tensor.F32, h.k, h.k)
	f.factor(h.damping.Mean*mean(diag), diag)
	f.weigh()
	if err := d.Sync(); err != nil {
		f.Free()
		return nil, fmt.Errorf("factor a Hessian of %d inputs: %w", h.k, err)
	}
	return f, nil
}

// raise adds a share of the diagonal of H to it.
func (f *Factor) raise(share float32) {
	own := f.H
	own.Cols, own.Stride = 1, f.H.Stride+1
	f.dev.AddScaled(own, own, share)
}

// activationOrder sorts rows by falling diagonal, the first among equals first.
func activationOrder(diag []float32) []int32 {
	keys := make([]uint64, len(diag))
	for i, v := range diag {
		keys[i] = uint64(^rank(v))<<32 | uint64(i)
	}
	slices.Sort(keys) // several times as fast as by a function of two
	perm := make([]int32, len(diag))
	for i, k := range keys {
		perm[i] = int32(uint32(k))
	}
	return perm
}

// rank returns a number that is larger the larger v is, 0 of what is no number.
func rank(v float32) uint32 {
	b := math.Float32bits(v)
	switch {
	case v != v:
		return 0
	case v == 0:
		return 1 << 31
	case b>>31 != 0:
		return ^b
	}
	return b | 1<<31
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

// factor finds the least damping that works, from damp on, and adds it to the diagonal
// of H.
func (f *Factor) factor(damp float32, diag []float32) {
	if largest := diag[f.Perm[0]]; !(largest <= maxMoment) {
		f.nearest()
		return
	}
	ok := f.dev.Alloc(tensor.I32, 1, 1)
	defer f.dev.Free(ok)
	f.Damp = damp
	for range dampTries {
		var done [1]int32
		f.dev.InverseFactor(f.U, f.H, f.Damp, ok)
		f.dev.Download(tensor.BytesOf(done[:]), ok)
		if done[0] != 0 {
			f.dev.AddDiagonal(f.H, f.Damp)
			return
		}
		f.Damp *= 10
	}
	f.nearest()
}

// nearest puts the identity in the place of a matrix that cannot be factored, and
// of its factor.
func (f *Factor) nearest() {
	f.Nearest, f.Damp = true, 0
	for _, m := range []tensor.Tensor{f.U, f.H} {
		f.dev.Clear(m)
		f.dev.AddDiagonal(m, 1)
	}
}

// weigh computes how much each row's squared error costs: error feedback turns
// an error of row i into a loss of its square over u[i,i]².
func (f *Factor) weigh() {
	weights := diagonal(f.dev, f.U)
	for i, u := range weights {
		weights[i] = 1 / (u * u)
	}
	f.Importance = f.dev.Alloc(tensor.F32, 1, f.k)
	f.dev.Upload(f.Importance, tensor.BytesOf(weights))
}

// ready returns the factor with what descents make of it, which is made once.
func (f *Factor) ready() device.Factor {
	if f.Ready.Nil() {
		f.Ready = f.dev.ReadyToDescend(f.Factor)
	}
	return f.Factor
}

// Free frees the factor.
func (f *Factor) Free() {
	for _, t := range []tensor.Tensor{f.perm, f.U, f.H, f.Importance, f.Ready} {
		f.dev.Free(t)
	}
}
