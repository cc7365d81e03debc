// Package model runs any transformer that package arch can describe.
//
// The nouns: a model is a list of [Module]s, each one step of the residual
// stream: an embedding, then an [Attention] and an [MLP] a layer, then a
// [Head]. A [State] holds the activations of a pass. A [Linear] is the only
// place that knows weight formats. A [Loader] makes modules from files.
package model

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A Module is one step of the residual stream: Forward reads s.X (the
// embedding: s.IDs) and leaves the result there (the head: in s.Logits).
// Conversion works through the list one module at a time, inference runs all
// of it.
type Module interface {
	Name() string
	Forward(s *State)

	// Steps are the parts of Forward, to be run in order.
	Steps() []Step
	Free()
}

// A Step is a part of a module's Forward that ends where linears read what it
// has computed. Those linears share one Hessian.
type Step struct {
	Run     func(s *State)
	Reads   func(s *State) tensor.Tensor // nil in the last step
	Linears []*Linear                    // run by the next step
	Adds    bool                         // what they compute is added to the stream as it is
}

// Linears lists the linears of a module in the order they run.
func Linears(m Module) []*Linear {
	var list []*Linear
	for _, s := range m.Steps() {
		list = append(list, s.Linears...)
	}
	return list
}

// A Linear computes y = x·W + b.
type Linear struct {
	Name    string // in the file, without ".weight"
	In, Out int
	W       Weight
	Bias    tensor.Tensor
}

// A Weight is how a Linear stores W.
type Weight interface {
	mul(d device.Device, y, x, bias tensor.Tensor)
	free(d device.Device)
	// Bytes is what one product reads.
	Bytes() int
}

// Dense is W as the source has it: [out, in].
type Dense struct{ tensor.Tensor }

// Quantized is W in EXL2.
type Quantized struct{ device.Matrix }

func (w Dense) mul(d device.Device, y, x, bias tensor.Tensor) { d.MatMul(y, x, w.Tensor, bias) }
func (w Dense) free(d device.Device)                          { d.Free(w.Tensor) }

func (w Quantized) mul(d device.Device, y, x, bias tensor.Tensor) { d.QMatMul(y, x, w.Matrix, bias) }
func (w Quantized) free(d device.Device)                          { d.FreeEXL2(w.Matrix) }

func (l *Linear) forward(s *State, y, x tensor.Tensor) { l.W.mul(s.Dev, y, x, l.Bias) }

// Replace puts w in the place of the linear's weight, which it frees.
func (l *Linear) Replace(d device.Device, w Weight) {
	l.W.free(d)
	l.W = w
}

func (l *Linear) free(d device.Device) {
	if l != nil && l.W != nil {
		l.W.free(d)
		d.Free(l.Bias)
	}
}

// Norm is a norm and its weights.
type Norm struct {
	device.Norm
	W, Bias tensor.Tensor
}

func normed(s *State) tensor.Tensor { return s.Norm }

func (n Norm) apply(s *State, y, x tensor.Tensor) { s.Dev.Norm(y, x, n.W, n.Bias, n.Norm) }

// Embedding is the first module: ids to residual stream.
type Embedding struct {
	dev   device.Device
	name  string
	Table tensor.Tensor
	scale float32
}

// Name is the table's name in the file.
func (e *Embedding) Name() string { return e.name }

// Steps is one step without linears: a table is not quantized.
func (e *Embedding) Steps() []Step { return []Step{{Run: e.Forward}} }

// Forward stores the rows that s.IDs name in s.X.
func (e *Embedding) Forward(s *State) { s.Dev.Embed(s.X, e.Table, s.IDs, e.scale) }

// Free frees the table.
func (e *Embedding) Free() { e.dev.Free(e.Table) }

// Head is the last module: norm and logits.
type Head struct {
	dev            device.Device
	name           string
	In             Norm
	Out            *Linear
	scale, softcap float32
}

// Name is the head matrix's name in the file.
func (h *Head) Name() string { return h.name }

// Steps are the norm and the product.
func (h *Head) Steps() []Step {
	return []Step{{Run: h.norm, Reads: normed, Linears: []*Linear{h.Out}}, {Run: h.logits}}
}

// Forward computes the logits of the rows of s.X.
func (h *Head) Forward(s *State) {
	h.norm(s)
	h.logits(s)
}

func (h *Head) norm(s *State) { h.In.apply(s, s.Norm, s.X) }

func (h *Head) logits(s *State) {
	h.Out.forward(s, s.Logits, s.Norm)
	if h.scale != 1 || h.softcap != 0 {
		s.Dev.Cap(s.Logits, h.scale, h.softcap)
	}
}

// Free frees the weights.
func (h *Head) Free() {
	h.dev.Free(h.In.W)
	h.Out.free(h.dev)
}
