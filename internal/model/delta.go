package model

import (
	"fmt"
	"math"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// delta makes linear attention (arch.Delta): the norm, which all of its matrices read, what goes from
// position to position, normalized and gated, which o reads, and the sum.
func (b *builder) delta(m *Module) {
	in, out := b.input(m, NormIn), b.output(m, NormOut)
	d, reads, o := b.deltaParts(m)
	out.residual *= d.weight()
	read := in.step(Site{Reads: Normed, Linears: reads, Writes: deltaWrites})
	if d.steps() {
		read.recurs = d
	} else {
		read.in = nil // what is normalized is read once more: not with the products alone
	}
	mix := Step{Run: d.run, Back: d.back, Sites: []Site{{Reads: DeltaOut, Linears: []*Linear{o}, Writes: []Slot{Out}, Adds: out.plain()}}}
	m.Steps = []Step{read, mix, out.step()}
}

// deltaWrites is where what deltaParts returns first writes.
var deltaWrites = []Slot{DeltaQuery, DeltaKey, DeltaValue, DeltaGate}

// deltaParts loads linear attention, the linears that read the norm, and the one that reads what it gives.
func (b *builder) deltaParts(m *Module) (d *delta, reads []*Linear, o *Linear) {
	n := b.Spec.Names
	d = &delta{GatedDelta: deltaOf(b.Spec), layer: b.Spec.Kept(m.Layer), groups: b.Spec.Delta.Groups, bare: b.Spec.Delta.Bare, scales: b.Spec.Delta.Scales}
	if !d.bare {
		d.norm = b.norm(m, NormDelta)
	}
	d.vectors(b, m)
	q, k, v, z, o := b.linear(m, n.DeltaQ), b.linear(m, n.DeltaK), b.linear(m, n.DeltaV), b.linear(m, n.DeltaZ), b.linear(m, n.DeltaO)
	d.a = b.linear(m, n.DeltaA)
	m.fixed = append(m.fixed, d.a)
	if !d.Plain {
		d.b = b.linear(m, n.DeltaB)
		d.rates = b.joint(m, d.a, d.b)
		m.fixed = append(m.fixed, d.b)
	} else if w, ok := d.a.W.(Dense); ok && d.a.Bias.Nil() {
		d.rates = w.Tensor
	}
	return d, []*Linear{q, k, v, z}, o
}

// delta is what linear attention has beside the linears that are quantized.
type delta struct {
	device.GatedDelta
	norm   Norm // of heads, or of groups
	groups int
	bare   bool // no norm
	scales arch.DeltaScales
	a, b   *Linear       // the second is nil if Plain
	rates  tensor.Tensor // all of them, one below the other, or none
	layer  int           // among those that have a state
}

// vectors loads what belongs to no matrix, in the order of the layout.
func (d *delta) vectors(b *builder, m *Module) {
	vectors := m.Vectors
	if b.Spec.Delta.ConvsApart {
		d.Conv, vectors = b.own(m, b.below(vectors[:3])), vectors[2:]
	}
	to := []*tensor.Tensor{&d.Conv, &d.Decay, &d.Bias}
	if d.Plain {
		to = append(to, &d.Skip)
	}
	if b.Spec.Delta.ConvBias {
		to = append(to, &d.ConvBias)
	}
	for i, t := range to {
		if !t.Nil() {
			continue
		}
		numbers := b.numbers
		if d.Plain && (t == &d.Conv || t == &d.ConvBias) {
			numbers = func(v VectorSpec) tensor.Tensor { return d.turned(b, v) }
		}
		*t = b.own(m, numbers(vectors[i]))
	}
}

// below loads convolutions, one below the other. What transformers saves is all of them, cut in as many parts of one size as
// there are names.
func (b *builder) below(list []VectorSpec) tensor.Tensor {
	var all []float32
	rows, kernel := 0, list[0].Dims[2]
	for _, v := range list {
		rows += v.Dims[0]
	}
	part, left := (rows+len(list)-1)/len(list), rows
	for _, v := range list {
		t, kind, ok := b.get(v.Name, v.Shape(), []int{min(part, left), 1, kernel})
		if !ok {
			return tensor.Tensor{}
		}
		all, left = append(all, tensor.Widen(kind, t.Data)...), left-t.Shape[0]
	}
	if left != 0 {
		b.fail(fmt.Errorf("%s and those beside it: %d columns, want %d", list[0].Name, rows-left, rows))
		return tensor.Tensor{}
	}
	return b.upload(tensor.F32, rows, kernel, tensor.BytesOf(all))
}

// turned loads numbers that files have by columns of v, k and q, by those of q, k and v.
func (d *delta) turned(b *builder, v VectorSpec) tensor.Tensor {
	t, kind, ok := b.get(v.Name, v.Shape(), []int{exl2.Pad(v.Cols)})
	if !ok {
		return tensor.Tensor{}
	}
	all, each := tensor.Widen(kind, t.Data)[:v.Cols], v.Cols/d.Columns()
	values, keys := all[:d.Values()*each], all[d.Values()*each:]
	half := d.Keys() * each
	if v.Dims != nil { // weights, and so what they are multiplied by
		scaleAll(values, d.scales.V)
		scaleAll(keys[:half], d.scales.K)
		scaleAll(keys[half:], d.scales.Q)
	}
	turned := tensor.BytesOf(slices.Concat(keys[half:], keys[:half], values))
	if v.Dims == nil {
		return b.upload(tensor.F32, 1, v.Cols, turned)
	}
	return b.upload(tensor.F32, d.Columns(), each, turned)
}

// joint has two matrices lie one below the other, if both are dense, of one type, and returns them.
func (b *builder) joint(m *Module, x, y *Linear) tensor.Tensor {
	p, ok := x.W.(Dense)
	q, too := y.W.(Dense)
	if b.err != nil || !ok || !too || p.Type != q.Type {
		return tensor.Tensor{}
	}
	t := b.own(m, b.dev.Alloc(p.Type, p.Rows+q.Rows, p.Cols))
	for _, part := range []struct {
		l  *Linear
		to tensor.Tensor
	}{{x, t.Slice(0, p.Rows)}, {y, t.Slice(p.Rows, t.Rows)}} {
		b.dev.Copy(part.to, part.l.W.(Dense).Tensor)
		part.l.Borrow(b.dev, Dense{part.to})
		b.dense[m.table(part.l)] = part.to
	}
	return t
}

// scaleAll multiplies numbers, unless by 0.
func scaleAll(v []float32, by float32) {
	for i := range v {
		v[i] *= orOne(by)
	}
}

// ratesOf returns what a slot has of decay and of β, which is absent if Plain.
func (d *delta) ratesOf(s *State) (decay, beta tensor.Tensor) {
	t := s.At(DeltaRates)
	if d.Plain {
		return t, tensor.Tensor{}
	}
	return t.Columns(0, t.Cols/2), t.Columns(t.Cols/2, t.Cols)
}

func (d *delta) run(s *State) {
	decay, beta := d.ratesOf(s)
	if !d.rates.Nil() {
		s.Dev.MatMul(s.At(DeltaRates), s.At(Normed), d.rates, tensor.Tensor{})
	} else {
		d.a.W.mul(s.Dev, decay, s.At(Normed), d.a.Bias)
		if !d.Plain {
			d.b.W.mul(s.Dev, beta, s.At(Normed), d.b.Bias)
		}
	}
	if scale := orOne(d.scales.A); scale != 1 {
		s.Dev.Cap(decay, scale, 0)
	}
	s.Dev.GatedDelta(s.At(DeltaMixed), s.At(DeltaColumns), s.At(DeltaQuery), s.At(DeltaKey), s.At(DeltaValue), decay, beta, d.GatedDelta, s.cache.recurrent(d.layer), s.Batch)
	d.scaleGate(s)
	switch gate := s.At(d.gate()); {
	case d.bare:
		s.Dev.Copy(s.At(DeltaOut), s.At(DeltaMixed))
		if c, scaled := d.clamp(); scaled {
			s.Dev.ClampMul(s.At(DeltaOut), gate, s.At(DeltaOut), c)
			return
		}
		s.Dev.ActMul(s.At(DeltaOut), gate, s.At(DeltaOut), device.SiLU)
	case d.Plain:
		s.Dev.GatedNorm(s.At(DeltaOut), s.At(DeltaMixed), gate, d.norm.W, d.group(), d.norm.Norm)
	default:
		s.Dev.HeadNormGated(s.At(DeltaOut), s.At(DeltaMixed), gate, d.norm.W, d.norm.Norm)
	}
}

// steps reports whether linear attention is its rule, with rates of one matrix, and the norm with its gates, and nothing else.
func (d *delta) steps() bool {
	return !d.bare && d.scales == (arch.DeltaScales{}) && !d.rates.Nil()
}

// fused does the products of p, and what is between them and o, the first of some steps, on a device that can. o's may be left in its order.
func (d *delta) fused(f device.Fuser, s *State, p device.Products, steps []Step) bool {
	m := device.LinearMixing{GatedDelta: d.GatedDelta, Rates: d.rates, Mixed: s.At(DeltaMixed), Norm: d.norm.Norm, Scale: d.norm.W, State: s.cache.recurrent(d.layer), Batch: s.Batch, Reader: steps[0].reader(s, steps[1:])}
	if d.Plain {
		m.Group = d.group()
	}
	return f.LinearAttention(s.At(DeltaOut), p, m)
}

// clamp returns the unit of gates that are scaled, without a norm behind them, divided by their scale, which is one of the whole then (weight): silu(z·g) is
// z times g·σ(z·g).
func (d *delta) clamp() (c device.Clamp, scaled bool) {
	z := orOne(d.scales.Z)
	return device.Clamp{Limit: math.MaxFloat32, Up: math.MaxFloat32, Alpha: z}, d.bare && z != 1
}

// weight returns what is multiplied by what o makes of DeltaOut.
func (d *delta) weight() float32 {
	if _, scaled := d.clamp(); scaled {
		return orOne(d.scales.O) * d.scales.Z
	}
	return orOne(d.scales.O)
}

// gate returns what gates are read from.
func (d *delta) gate() Slot {
	if !d.bare && orOne(d.scales.Z) != 1 {
		return DeltaScaled
	}
	return DeltaGate
}

// scaleGate multiplies the gates, if they are to be.
func (d *delta) scaleGate(s *State) {
	if d.gate() == DeltaGate {
		return
	}
	s.Dev.Clear(s.At(DeltaWide))
	s.Dev.AddScaled(s.At(DeltaWide), s.At(DeltaGate), d.scales.Z)
	s.Dev.Copy(s.At(DeltaScaled), s.At(DeltaWide))
}

// heads has a row for each head of x.
func (d *delta) heads(x tensor.Tensor) tensor.Tensor {
	return x.Reshape(x.Rows*d.ValueHeads, d.ValueDim)
}

// group returns the columns that are normalized together.
func (d *delta) group() int { return d.Values() / d.groups }

func deltaOf(spec arch.Spec) device.GatedDelta {
	d := spec.Delta
	return device.GatedDelta{KeyHeads: d.KeyHeads, ValueHeads: d.ValueHeads, KeyDim: d.KeyDim, ValueDim: d.ValueDim, Kernel: d.Kernel, Plain: d.Plain, Least: d.Least, Most: d.Most}
}
