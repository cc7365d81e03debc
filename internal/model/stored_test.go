package model

import (
	"fmt"
	"slices"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// oneTensor is files of one tensor, whose elements count from 0.
type oneTensor struct{ info safetensors.Info }

func (f oneTensor) Has(name string) bool { return name == f.info.Name }
func (f oneTensor) Names() []string      { return []string{f.info.Name} }

func (f oneTensor) Info(name string) (safetensors.Info, bool) { return f.info, f.Has(name) }

func (f oneTensor) Get(name string) (safetensors.Tensor, error) {
	if !f.Has(name) {
		return safetensors.Tensor{}, fmt.Errorf("no tensor %s", name)
	}
	n := 1
	for _, d := range f.info.Shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i)
	}
	return safetensors.Tensor{Info: f.info, Data: tensor.BytesOf(v)}, nil
}

// Matrices are found in whatever tensor the source keeps them in, by where its
// elements are.
func TestUnfused(t *testing.T) {
	names := arch.Names{Layers: "l.*", Q: "q", K: "k", V: "v", O: "o", ExpertGate: "e.*.gate", ExpertUp: "e.*.up", ExpertDown: "e.*.down", Router: "r"}
	spec := arch.Spec{
		Hidden: 2, Layers: 1, Vocab: 1, Names: names, Attn: arch.Attn{Heads: 4, KVHeads: 2, HeadDim: 1, BiasQKV: true},
		MoE: arch.MoE{Experts: 2, TopK: 1, Width: 3}, MLP: arch.MLP{Bias: true},
	}
	qkv, gateUp := []string{"q", "k", "v"}, []string{"e.*.gate", "e.*.up"}
	for _, c := range []struct {
		stored arch.Stored
		shape  []int
		part   string // that is asked for
		want   []float32
	}{
		{arch.Stored{Weight: "qkv.weight", Holds: qkv}, []int{8, 2}, "l.0.k.weight", []float32{8, 9, 10, 11}},
		{arch.Stored{Weight: "qkv.weight", Holds: qkv, Order: arch.ByHead}, []int{8, 2}, "l.0.q.weight", []float32{0, 1, 2, 3, 8, 9, 10, 11}},
		{arch.Stored{Weight: "qkv.weight", Holds: qkv, Order: arch.ByHead}, []int{8, 2}, "l.0.k.weight", []float32{4, 5, 12, 13}},
		{arch.Stored{Weight: "qkv.weight", Holds: qkv, Order: arch.ByHead}, []int{8, 2}, "l.0.v.weight", []float32{6, 7, 14, 15}},
		{arch.Stored{Weight: "qkv.weight", Holds: qkv, Transposed: true}, []int{2, 8}, "l.0.v.weight", []float32{6, 14, 7, 15}},
		{arch.Stored{Weight: "w", Bias: "qkv.weight", Holds: qkv}, []int{8}, "l.0.v.bias", []float32{6, 7}},
		{arch.Stored{Weight: "o.weight", Holds: []string{"o"}, Transposed: true}, []int{4, 2}, "l.0.o.weight", []float32{0, 2, 4, 6, 1, 3, 5, 7}},
		{arch.Stored{Weight: "gu", Holds: gateUp, Stacked: true}, []int{2, 6, 2}, "l.0.e.1.up.weight", []float32{18, 19, 20, 21, 22, 23}},
		{arch.Stored{Weight: "gu", Holds: gateUp, Stacked: true, Transposed: true, Order: arch.Alternating}, []int{2, 2, 6}, "l.0.e.1.gate.weight", []float32{12, 18, 14, 20, 16, 22}},
		{arch.Stored{Weight: "w", Bias: "gu", Holds: gateUp, Stacked: true, Order: arch.Alternating}, []int{2, 6}, "l.0.e.1.up.bias", []float32{7, 9, 11}},
		{arch.Stored{Weight: "d", Holds: []string{"e.*.down"}, Flat: true, Transposed: true}, []int{6, 2}, "l.0.e.1.down.weight", []float32{6, 8, 10, 7, 9, 11}},
		{arch.Stored{Weight: "e.*.gu", Holds: gateUp}, []int{6, 2}, "l.0.e.0.up.weight", []float32{6, 7, 8, 9, 10, 11}},
	} {
		name := fmt.Sprintf("%+v %s", c.stored, c.part)
		whole := c.stored.Weight
		if whole == "w" {
			whole = c.stored.Bias
		}
		spec.Stored = []arch.Stored{c.stored}
		file := oneTensor{safetensors.Info{Name: spec.Names.Layer(0, arch.Expert(whole, 0)), DType: safetensors.F32, Shape: c.shape}}
		u := newUnfused(spec, Layout(spec), file)
		got, err := u.Get(c.part)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v := tensor.Widen(tensor.F32, got.Data); !slices.Equal(v, c.want) {
			t.Errorf("%s: %v, want %v", name, v, c.want)
		}
		if c.part != file.info.Name && (u.Has(c.part) != slices.Contains(u.Names(), c.part) || slices.Contains(u.Names(), file.info.Name)) {
			t.Errorf("%s: names %v", name, u.Names())
		}
		file.info.Shape = append([]int{7}, c.shape...)
		if _, err := newUnfused(spec, Layout(spec), file).Get(c.part); err == nil {
			t.Errorf("%s: a tensor of another shape is read", name)
		}
	}
}
