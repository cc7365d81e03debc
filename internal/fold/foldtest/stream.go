package foldtest

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/model"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// PlantStream writes a model to a folder, its residual stream turned so that the directions
// in which most is written to it are channels of their own. It computes what it did, but for
// roundings to F16.
func PlantStream(from, to string, directions int) error {
	l, files, err := model.Open(from)
	if err != nil {
		return err
	}
	defer files.Close()
	if !l.Rotate() { // and norms are ones
		return fmt.Errorf("the residual stream of %s cannot be turned", l.Spec.Arch)
	}
	s := &turned{Files: l.Files, n: l.Spec.Hidden, by: map[string][]float32{}, writes: map[string]bool{}}
	names := []string{l.Spec.Names.Embed + ".weight"}
	for _, m := range l.Layout {
		for _, x := range m.Linears {
			names = append(names, x.Name+".weight")
			s.writes[x.Name+".weight"] = x.Role == arch.O || x.Role == arch.Down
		}
	}
	for _, name := range names {
		x, err := l.Files.Get(name)
		if err != nil {
			return err
		}
		s.by[name] = tensor.Widen(tensor.F16, x.Data)
	}
	for d := range directions {
		s.swap(d * s.n / directions)
	}
	l = model.NewLoader(l.Spec, s)
	if err := write(l, filepath.Join(to, "model.safetensors")); err != nil {
		return err
	}
	return copyRest(from, to)
}

// turned is files with a stream that is turned.
type turned struct {
	model.Files
	n      int
	by     map[string][]float32 // F16 in the files
	writes map[string]bool
	own    []int // channels that directions have become
}

// Get returns a tensor.
func (s *turned) Get(name string) (safetensors.Tensor, error) {
	x, err := s.Files.Get(name)
	if v, ok := s.by[name]; ok && err == nil {
		tensor.Narrow(x.Data, tensor.BytesOf(slices.Clone(v)), tensor.F32)
	}
	return x, err
}

// swap reflects the stream so that the direction in which most is written and a channel
// change places.
func (s *turned) swap(channel int) {
	u := s.principal()
	s.own = append(s.own, channel)
	u[channel]--
	if unit(u) == 0 {
		return
	}
	for name, v := range s.by {
		rows, step, next := len(v)/s.n, 1, s.n
		if s.writes[name] {
			step, next = rows, 1
		}
		for r := range rows {
			dot := 0.0
			for i, x := range u {
				dot += x * float64(v[r*next+i*step])
			}
			for i, x := range u {
				v[r*next+i*step] -= float32(2 * dot * x)
			}
		}
	}
}

// principal returns the direction in which most is written, beside those that are channels
// of their own already, by power iteration.
func (s *turned) principal() []float64 {
	u := make([]float64, s.n)
	for i := range u {
		u[i] = 1 + float64(i%7)
	}
	for range 30 {
		next := make([]float64, s.n)
		for name, v := range s.by {
			if !s.writes[name] {
				continue
			}
			width := len(v) / s.n
			for c := range width {
				dot := 0.0
				for i, x := range u {
					dot += x * float64(v[i*width+c])
				}
				for i := range next {
					next[i] += dot * float64(v[i*width+c])
				}
			}
		}
		for _, c := range s.own {
			next[c] = 0
		}
		u = next
		unit(u)
	}
	return u
}

// unit divides a vector by its norm, and returns that.
func unit(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	norm := math.Sqrt(sum)
	for i := range v {
		v[i] /= max(norm, 1e-30)
	}
	return norm
}
