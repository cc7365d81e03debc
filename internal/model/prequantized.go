package model

import (
	"fmt"
	"strings"

	"exl2/internal/affine"
	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/prequant"
)

// Packed reads a linear's matrix as another program has quantized it, or returns
// nil if it is not quantized, or not so that devices can multiply by it.
func (l *Loader) Packed(s LinearSpec) (*affine.Matrix, error) {
	m, err := l.unfused.matrix(s.Name + ".weight")
	if m == nil || err != nil || !m.Fusible() {
		return nil, err
	}
	if m.In != s.In || m.Out != s.Out {
		return nil, fmt.Errorf("%s: matrix of %d x %d, want %d x %d", s.Name, m.In, m.Out, s.In, s.Out)
	}
	return m, nil
}

// PackedBytes returns what the matrix that Packed returns takes on d, 0 if there is
// none, or none that d can multiply by.
func (l *Loader) PackedBytes(s LinearSpec, d device.Device) int {
	m := l.outline(s)
	if m == nil || !l.packs(s, d) {
		return 0
	}
	return m.Size(s.Out)
}

// outline returns what Packed does, or what that is part of, without its codes; nil if
// there is none.
func (l *Loader) outline(s LinearSpec) *affine.Matrix {
	f, name := l.quantized(s)
	if f == nil {
		return nil
	}
	m, err := f.Outline(name)
	if m == nil || err != nil || !m.Fusible() {
		return nil
	}
	return m
}

// Stored returns the bits that others' files have for each weight of a linear, and in
// what form; 0 if it is not quantized.
func (l *Loader) Stored(s LinearSpec) (bits float64, form string) {
	f, name := l.quantized(s)
	if f == nil {
		return 0, ""
	}
	return f.Stored(name)
}

// quantized returns the files that show a linear's weight decoded, and the name of
// what it is part of there; nil if it is not quantized.
func (l *Loader) quantized(s LinearSpec) (*prequant.Files, string) {
	u := l.unfused
	f, ok := u.files.(*prequant.Files)
	name := s.Name + ".weight"
	if p, ok := u.parts[name]; ok {
		name = p.whole
	}
	if !ok || !f.Decoded(name) {
		return nil, ""
	}
	return f, name
}

// dropBiases hides the biases that some quantizers write of every linear: zeros,
// where the architecture has none.
func (l *Loader) dropBiases(f *prequant.Files) error {
	used := map[string]bool{}
	for _, m := range l.Layout {
		for _, x := range m.Linears {
			if !x.Biased {
				continue
			}
			used[x.Name+".bias"] = true
			for _, t := range l.Spec.Stored {
				used[l.Spec.Names.Layer(m.Layer, arch.Expert(t.Bias, x.Expert))] = true
			}
		}
	}
	for _, name := range f.Names() {
		linear, ok := strings.CutSuffix(name, ".bias")
		if !ok || used[name] || !f.Decoded(linear+".weight") {
			continue
		}
		if err := l.checkZero(f, name); err != nil {
			return err
		}
		f.Hide(name)
	}
	return nil
}

// packs reports whether a matrix that another program has packed may stay so on d:
// those of experts are multiplied in groups.
func (l *Loader) packs(s LinearSpec, d device.Device) bool {
	return !l.Decode && (d.GroupsAffine() || !strings.Contains(s.Part, "*"))
}

// matrix returns the quantized matrix that a weight is shown in the place of, nil
// if there is none.
func (u *unfused) matrix(name string) (*affine.Matrix, error) {
	f, ok := u.files.(*prequant.Files)
	if !ok {
		return nil, nil
	}
	p, fused := u.parts[name]
	if !fused {
		return f.Matrix(name)
	}
	m, err := u.packed.Get(p.whole, f.Matrix)
	if m == nil || err != nil {
		return nil, err
	}
	if m.Out != p.all || m.In != p.in {
		return nil, fmt.Errorf("%s: matrix of %d x %d, want %d x %d", p.whole, m.In, m.Out, p.in, p.all)
	}
	list := make([]int, p.out)
	for i := range list {
		list[i] = p.output(i)
	}
	return m.Columns(list), nil
}
