// Package quant stores one weight matrix as EXL2, given what it is multiplied with.
//
// The nouns: a [Weight] is what a linear layer multiplies with. Its inputs, rows of
// activations on calibration data, tell which errors matter. [Quantize] makes the
// [Matrix] whose outputs are closest, by GPTQ and coordinate descent, and decodes
// it again to check it.
package quant

import (
	"fmt"
	"math"

	"exl2/internal/device"
	"exl2/internal/devices"
	"exl2/internal/exl2"
	"exl2/internal/quant"
	"exl2/internal/tensor"
)

// A Weight is W in y = x·Wᵀ: [Out, In], row by row, as model files have it. In is a
// multiple of 32.
type Weight struct {
	Out, In int
	Data    []float32
}

// Options say how a weight is stored.
type Options struct {
	Recipe string            // "0.1:4b_128g/0.9:3b_128g": shares of the rows of Wᵀ, bits, group size
	Device string            // "cpu" or the number of a GPU; "" is the first GPU, or the CPU where there is none
	Note   func(text string) // told why it is the CPU; may be nil
}

// A Matrix is a weight in EXL2.
type Matrix struct {
	Tensors []Tensor // as model files have them, behind the layer's name and a dot
	Bits    int      // of all of them
	Error   float64  // Σ(y-ŷ)² over Σy² on the inputs, ŷ by the stored weights

	packed *exl2.Matrix
	out    int // without padding
}

// A Tensor is one of the tensors that hold a matrix.
type Tensor struct {
	Suffix string // q_weight, q_scale, q_scale_max, q_groups, q_invperm
	DType  string // in safetensors' words
	Shape  []int
	Data   []byte
}

// descents is how many passes of coordinate descent follow GPTQ.
const descents = 2

// chunk is how many rows of inputs are on the device at a time.
const chunk = 1024

// Quantize stores w. Inputs are rows of In activations each, a few hundred at least:
// with fewer than In of them, errors that they do not show do not count.
func Quantize(w Weight, inputs []float32, o Options) (*Matrix, error) {
	r, err := exl2.ParseRecipe(o.Recipe)
	if err == nil {
		err = w.check(inputs)
	}
	if err != nil {
		return nil, err
	}
	d, err := devices.OpenQuantizer(o.Device, o.Note)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return w.quantize(d, inputs, r)
}

// check reports what makes a weight or its inputs impossible to work with.
func (w Weight) check(inputs []float32) error {
	switch {
	case w.In <= 0 || w.In%exl2.Align != 0 || w.In > 1<<16 || w.Out <= 0:
		return fmt.Errorf("weight of %d outputs and %d inputs, want a multiple of %d inputs, up to %d", w.Out, w.In, exl2.Align, 1<<16)
	case len(w.Data) != w.Out*w.In:
		return fmt.Errorf("weight of %d numbers, want %d x %d", len(w.Data), w.Out, w.In)
	case len(inputs) == 0 || len(inputs)%w.In != 0:
		return fmt.Errorf("inputs of %d numbers, want rows of %d", len(inputs), w.In)
	}
	for _, x := range []struct {
		name string
		list []float32
		most float64
	}{{"weight", w.Data, 65504}, {"input", inputs, 65504}} {
		for i, v := range x.list {
			if !(math.Abs(float64(v)) <= x.most) {
				return fmt.Errorf("%s %d is %v, which fp16 cannot hold", x.name, i, v)
			}
		}
	}
	return nil
}

func (w Weight) quantize(d device.Quantize, inputs []float32, r exl2.Recipe) (*Matrix, error) {
	h := quant.NewHessian(d, w.In)
	w.each(d, inputs, func(_ int, x tensor.Tensor) { h.Add(x) })
	f, err := h.Factor()
	if err != nil {
		return nil, err
	}
	defer f.Free()
	source := d.Alloc(tensor.F32, w.Out, w.In)
	defer d.Free(source)
	d.Upload(source, tensor.BytesOf(w.Data))
	target := f.Target(source)
	defer target.Free()
	loss := d.Alloc(tensor.F64, 1, 1)
	defer d.Free(loss)
	list := quant.Quantize([]*quant.Target{target}, []exl2.Recipe{r}, loss)
	defer list[0].Free()
	quant.Descend(list, descents)
	packed := list[0].Matrix()
	defer d.FreeEXL2(packed)
	done, err := quant.NewPacking(list, []device.Matrix{packed}, nil).Download(nil)
	if err != nil {
		return nil, err
	}
	m := done[0]
	out := &Matrix{Bits: m.Bits(), packed: m, out: w.Out}
	for _, t := range m.Tensors() {
		out.Tensors = append(out.Tensors, Tensor(t))
	}
	out.Error, err = w.distance(d, source, out.Weights(), inputs)
	return out, err
}

// each brings the inputs to the device, some rows at a time.
func (w Weight) each(d device.Device, inputs []float32, f func(part int, x tensor.Tensor)) {
	n := min(len(inputs)/w.In, chunk)
	wide, x := d.Alloc(tensor.F32, n, w.In), d.Alloc(d.Activation(), n, w.In)
	defer d.Free(wide)
	defer d.Free(x)
	for part := 0; len(inputs) > 0; part++ {
		k := min(n, len(inputs)/w.In)
		d.Upload(wide.Slice(0, k), tensor.BytesOf(inputs[:k*w.In]))
		d.Copy(x.Slice(0, k), wide.Slice(0, k))
		f(part, x.Slice(0, k))
		inputs = inputs[k*w.In:]
	}
}

// distance returns Σ(y-ŷ)² over Σy², 0 where all outputs are.
func (w Weight) distance(d device.Quantize, source tensor.Tensor, stored, inputs []float32) (float64, error) {
	for i, v := range w.Data {
		stored[i] = v - stored[i]
	}
	diff, y := d.Alloc(tensor.F32, w.Out, w.In), d.Alloc(tensor.F32, chunk, w.Out)
	defer d.Free(diff)
	defer d.Free(y)
	d.Upload(diff, tensor.BytesOf(stored))
	parts := (len(inputs)/w.In + chunk - 1) / chunk
	s := quant.NewScalars(d, 2*parts)
	defer s.Free()
	errs, squares := s.Take(parts), s.Take(parts)
	w.each(d, inputs, func(part int, x tensor.Tensor) {
		y := y.Slice(0, x.Rows)
		d.MatMul(y, x, diff, tensor.Tensor{})
		d.Dot(errs.Columns(part, part+1), y, y)
		d.MatMul(y, x, source, tensor.Tensor{})
		d.Dot(squares.Columns(part, part+1), y, y)
	})
	if err := s.Fetch(); err != nil {
		return 0, err
	}
	sum, square := 0.0, 0.0
	for i, v := range s.Values(errs) {
		sum, square = sum+v, square+s.Values(squares)[i]
	}
	if square == 0 {
		return 0, nil
	}
	return sum / square, nil
}

// Weights returns the stored weights, [Out, In].
func (m *Matrix) Weights() []float32 {
	values, in, wide := m.packed.Decode(), m.packed.In, m.packed.Out
	list := make([]float32, m.out*in)
	for stored, row := range m.packed.Perm() {
		for o := range m.out {
			list[o*in+int(row)] = values[stored*wide+o].Float32()
		}
	}
	return list
}
