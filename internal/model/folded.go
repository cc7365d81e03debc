package model

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A Folding says what channels are divided by, as powers of two, by the names of what
// makes them (Fold.Name). What reads them is multiplied.
type Folding map[string][]int8

// folded shows files as they are after folding.
type folded struct {
	Files
	rows, cols map[string][]int8 // by tensor: exponents of its outputs, or of a vector, and of its inputs
	same       map[string]string // tensors that are another one's, folded by themselves
	rotation   *rotation         // of the stream, or nil
}

// Fold has the loader show everything as it is with channels scaled. It is called once;
// Use keeps the folding. A head that is the embedding's table gets one of its own.
func (l *Loader) Fold(f Folding) error {
	s, left := l.refolded(), len(f)
	for _, m := range l.Layout {
		for _, place := range m.Folds(l.Spec) {
			e, ok := f[place.Name]
			if !ok {
				continue
			}
			if left--; len(e) != place.Channels {
				return fmt.Errorf("%s: folding of %d channels, want %d", place.Name, len(e), place.Channels)
			}
			s.add(place, e)
		}
	}
	if left > 0 {
		return fmt.Errorf("folding of %d norms or matrices that the model does not have, or that cannot be folded", left)
	}
	if _, ok := s.cols[l.Spec.Names.Head+".weight"]; ok {
		l.untie(s)
	}
	l.folding = s
	l.show(l.unfused)
	return nil
}

// refolded returns a copy of the loader's folding, to be added to.
func (l *Loader) refolded() *folded {
	s := &folded{rows: map[string][]int8{}, cols: map[string][]int8{}, same: map[string]string{}}
	if old := l.folding; old != nil {
		maps.Copy(s.rows, old.rows)
		maps.Copy(s.cols, old.cols)
		maps.Copy(s.same, old.same)
		s.rotation = old.rotation
	}
	return s
}

// untie gives a head that is the embedding's table one of its own.
func (l *Loader) untie(s *folded) {
	if l.Spec.Tied {
		l.Spec.Tied = false
		s.same[l.Spec.Names.Head+".weight"] = l.Spec.Names.Embed + ".weight"
		l.Layout = Layout(l.Spec)
	}
}

// add scales what a place makes, and what reads it.
func (s *folded) add(f Fold, e []int8) {
	down := make([]int8, len(e))
	for i, v := range e {
		down[i] = -v
	}
	s.rows[f.Name+".weight"], s.rows[f.Name+".bias"] = down, down
	for _, l := range f.Reads {
		cols := make([]int8, l.In)
		for i := range cols {
			cols[i] = e[f.Channel(i)]
		}
		s.cols[l.Name+".weight"] = cols
	}
}

// from returns the name of the source's tensor that a tensor is made of.
func (s *folded) from(name string) string {
	if other, ok := s.same[name]; ok {
		return other
	}
	return name
}

// Info returns what a tensor's header says, or would.
func (s *folded) Info(name string) (safetensors.Info, bool) {
	info, ok := s.Files.Info(s.from(name))
	info.Name = name
	if s.rotation.rotates(name) && info.DType == safetensors.BF16 {
		info.DType = safetensors.F16
	}
	return info, ok
}

// Names returns the names of the tensors, sorted.
func (s *folded) Names() []string {
	names := append(s.Files.Names(), slices.Collect(maps.Keys(s.same))...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Has reports whether there is a tensor.
func (s *folded) Has(name string) bool { return s.same[name] != "" || s.Files.Has(name) }

// Get returns a tensor.
func (s *folded) Get(name string) (safetensors.Tensor, error) {
	t, err := s.scaled(name)
	if err != nil || s.rotation == nil {
		return t, err
	}
	return s.rotation.apply(s, t)
}

// scaled returns a tensor before it is rotated.
func (s *folded) scaled(name string) (safetensors.Tensor, error) {
	t, err := s.Files.Get(s.from(name))
	t.Name = name
	rows, cols := s.rows[name], s.cols[name]
	if err != nil || rows == nil && cols == nil {
		return t, err
	}
	kind, ok := floatTypes[t.DType]
	n := 1
	if len(t.Shape) > 0 {
		n = t.Shape[0]
	}
	width := len(t.Data) / max(1, n*kind.Size())
	if !ok || rows != nil && len(rows) > n || cols != nil && len(cols) != width {
		return t, nil // whoever loads it has the words for that
	}
	t.Data = scaled(kind, t.Data, width, rows, cols)
	return t, nil
}

// scaled returns a copy of a matrix, [rows, width], or of a vector, times powers of two.
// What a number of two bytes is too short for is rounded.
func scaled(t tensor.Type, data []byte, width int, rows, cols []int8) []byte {
	out := make([]byte, len(data))
	size, columns := width*t.Size(), powers(cols, width)
	parallel.Runs(len(data)/max(1, size), 1+(1<<16)/max(1, size), func(lo, hi int) {
		factors := slices.Clone(columns)
		for r := lo; r < hi; r++ {
			if r < len(rows) {
				f := power(rows[r])
				for i, c := range columns {
					factors[i] = c * f
				}
			}
			scaleRow(t, out[r*size:(r+1)*size], data[r*size:(r+1)*size], factors)
		}
	})
	return out
}

func power(e int8) float32 { return float32(math.Ldexp(1, int(e))) }

// powers returns powers of two, or so many ones.
func powers(e []int8, n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		if list[i] = 1; e != nil {
			list[i] = power(e[i])
		}
	}
	return list
}

func scaleRow(t tensor.Type, dst, src []byte, factors []float32) {
	switch le := binary.LittleEndian; t {
	case tensor.F32:
		for i, f := range factors {
			le.PutUint32(dst[4*i:], math.Float32bits(math.Float32frombits(le.Uint32(src[4*i:]))*f))
		}
	case tensor.BF16:
		for i, f := range factors {
			le.PutUint16(dst[2*i:], uint16(half.ToBF16(half.BF16(le.Uint16(src[2*i:])).Float32()*f)))
		}
	default:
		for i, f := range factors {
			le.PutUint16(dst[2*i:], uint16(half.ToF16(half.F16(le.Uint16(src[2*i:])).Float32()*f)))
		}
	}
}
