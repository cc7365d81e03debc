package model

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/parallel"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A rotation multiplies the residual stream by an orthogonal matrix Q: signs by chance,
// then Hadamard matrices for blocks of channels. The weights of norms join the matrices that
// read them, and are 1.
type rotation struct {
	signs  []float32
	block  int             // a power of two that divides the number of channels
	offset float32         // of norms: a weight of 1 is stored as 1 - offset
	norms  map[string]bool // tensors that become ones

	reads  map[string]string // matrices that read the stream, and the norm in front; none of the embedding
	writes map[string]bool   // matrices and biases that write it
}

// rotationSeed is that of the signs.
const rotationSeed = 0x65786c32

// Rotate has the loader show the model as it is with its stream rotated, which changes
// nothing of what it computes but roundings. It reports whether the architecture allows that.
func (l *Loader) Rotate() bool {
	if !l.Spec.Rotates() {
		return false
	}
	s := l.refolded()
	l.untie(s)
	s.rotation = newRotation(l.Spec, l.Layout)
	l.folding = s
	l.show(l.unfused)
	return true
}

// ErrTooLarge is in the chain of errors about tensors of a rotated model that fp16 cannot
// hold.
var ErrTooLarge = errors.New("rotated, it is too large for fp16")

// Rotated lists the tensors that a rotation changes.
func (l *Loader) Rotated() []string {
	return slices.DeleteFunc(l.Files.Names(), func(name string) bool { return !l.folding.rotation.rotates(name) })
}

// RotateRows multiplies rows of the stream as it is by what the loader rotates it by.
func (l *Loader) RotateRows(rows []float32) {
	q, n := l.folding.rotation, l.Spec.Hidden
	parallel.Runs(len(rows)/n, 16, func(lo, hi int) { q.inputs(rows[lo*n : hi*n]) })
}

func newRotation(spec arch.Spec, layout []ModuleSpec) *rotation {
	q := &rotation{signs: make([]float32, spec.Hidden), block: spec.Hidden & -spec.Hidden, offset: spec.Norm.Offset,
		norms: map[string]bool{}, reads: map[string]string{spec.Names.Embed + ".weight": ""}, writes: map[string]bool{}}
	r := rand.New(rand.NewPCG(rotationSeed, 3))
	for i := range q.signs {
		q.signs[i] = float32(1 - 2*int(r.Uint64()&1))
	}
	for _, m := range layout {
		for _, n := range m.Norms {
			for _, l := range m.readers(spec.Names, n.Place) {
				q.norms[n.Name+".weight"] = true
				q.reads[l.Name+".weight"] = n.Name + ".weight"
			}
		}
		for _, l := range m.Linears {
			if l.Role == arch.O || l.Role == arch.Down {
				q.writes[l.Name+".weight"], q.writes[l.Name+".bias"] = true, true
			}
		}
	}
	return q
}

// rotates reports whether a tensor has other numbers than before.
func (q *rotation) rotates(name string) bool {
	if q == nil {
		return false
	}
	_, reads := q.reads[name]
	return reads || q.writes[name]
}

// apply rotates a tensor.
func (q *rotation) apply(s *folded, t safetensors.Tensor) (safetensors.Tensor, error) {
	kind, ok := floatTypes[t.DType]
	if !ok || len(t.Shape) == 0 || !q.norms[t.Name] && !q.rotates(t.Name) {
		return t, nil // of a type that whoever loads it refuses
	}
	v := tensor.Widen(kind, t.Data)
	rows := max(1, t.Shape[0])
	width := len(v) / rows
	norm, reads := q.reads[t.Name]
	switch {
	case q.norms[t.Name]:
		for i := range v {
			v[i] = 1 - q.offset
		}
	case reads && width == len(q.signs):
		if norm != "" {
			g, err := s.scaled(norm)
			if err != nil {
				return t, err
			}
			q.join(v, tensor.Widen(floatTypes[g.DType], g.Data))
		}
		parallel.Runs(rows, 16, func(lo, hi int) { q.inputs(v[lo*width : hi*width]) })
	case q.writes[t.Name] && rows == len(q.signs):
		parallel.Runs(width, 256, func(lo, hi int) { q.outputs(v, width, lo, hi) })
	default:
		return t, nil // of a shape that is refused
	}
	if t.DType == safetensors.F32 {
		t.Data = tensor.BytesOf(v)
		return t, nil
	}
	t.DType, t.Data = safetensors.F16, make([]byte, 2*len(v))
	if i, _ := tensor.Narrow(t.Data, tensor.BytesOf(v), tensor.F32); i >= 0 {
		return t, fmt.Errorf("%s: %w: element %d is %v then", t.Name, ErrTooLarge, i, v[i])
	}
	return t, nil
}

// join multiplies the columns of a matrix by a norm's weights.
func (q *rotation) join(v, weights []float32) {
	n := len(q.signs)
	if len(weights) < n {
		return
	}
	parallel.Runs(len(v)/n, 64, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			for i := range n {
				v[r*n+i] *= weights[i] + q.offset
			}
		}
	})
}

// inputs multiplies rows by Q.
func (q *rotation) inputs(v []float32) {
	n, scale := len(q.signs), float32(1/math.Sqrt(float64(q.block)))
	for ; len(v) > 0; v = v[n:] {
		for i, s := range q.signs {
			v[i] *= s * scale
		}
		for at := 0; at < n; at += q.block {
			hadamard(v[at : at+q.block])
		}
	}
}

// hadamard multiplies a vector by the Hadamard matrix of its size in Sylvester's order.
func hadamard(v []float32) {
	for h := 1; h < len(v); h *= 2 {
		for i := 0; i < len(v); i += 2 * h {
			a, b := v[i:i+h], v[i+h:i+2*h]
			for k, x := range a {
				y := b[k]
				a[k], b[k] = x+y, x-y
			}
		}
	}
}

// outputs multiplies columns lo to hi of a matrix by Qᵀ from the left.
func (q *rotation) outputs(v []float32, width, lo, hi int) {
	row := func(r int) []float32 { return v[r*width+lo : r*width+hi] }
	scale := float32(1 / math.Sqrt(float64(q.block)))
	for r, s := range q.signs {
		for i := range row(r) {
			row(r)[i] *= s * scale
		}
	}
	for h := 1; h < q.block; h *= 2 {
		for i := 0; i < len(q.signs); i += 2 * h {
			for k := i; k < i+h; k++ {
				a, b := row(k), row(k+h)
				for c, x := range a {
					y := b[c]
					a[c], b[c] = x+y, x-y
				}
			}
		}
	}
}
