package devtest

import (
	"fmt"
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// rowMixtureLimit is that of a mixture: roundings to fp16 between its products, and of
// the norm, which moves the weights of experts.
var rowMixtureLimit = limit{rms: 2e-2, rel: 4 * ulp, nmse: 2e-5, why: "sums in another order; roundings to fp16 between products"}

// A rowMixtureCase is a mixture with its norm and router.
type rowMixtureCase struct {
	rows, experts, chosen int
	hidden, width         int
	recipes               []string
	t                     tensor.Type // of the router
	norm                  device.Norm
	act                   device.Act
	r                     device.Routing
	shared, biased        bool
	correction            bool
	ungated               bool // up's results are their own gates
	distinct              int  // rows of the router, if others are equal to those
	whole                 int  // the expert that all rows see is one of a row's, so many times as wide as others; or 0
	apart                 bool // experts read what has a norm of its own, and have scales
}

func rowMixtureCases() (cases []testCase) {
	rms, layer := device.Norm{Eps: 1e-5}, device.Norm{Kind: device.Layer, Eps: 1e-6, Offset: 1}
	renorm, top := device.Routing{Renorm: true}, device.Routing{Score: device.SoftmaxTop}
	grouped := device.Routing{Score: device.Sigmoid, Groups: 4, TopGroups: 2, Renorm: true, RenormEps: 1e-20, Scale: 2.5}
	sigmoid := device.Routing{Score: device.Sigmoid, Renorm: true, Scale: 2.5}
	mixed := []string{"1:4b_128g", "0.3:5b_128g/0.7:3b_64g", "0.1:8b_32g/0.1:6b_64g/0.8:2b_32g"}
	f16, bf16, f32 := tensor.F16, tensor.BF16, tensor.F32
	for _, c := range []rowMixtureCase{
		{1, 1, 1, 32, 32, mixed, f16, rms, device.SiLU, renorm, false, false, false, false, 0, 0, false},
		{1, 12, 8, 2048, 768, mixed[:1], f16, rms, device.SiLU, renorm, false, false, false, false, 0, 0, false},
		{1, 130, 8, 256, 96, mixed, f16, rms, device.SiLU, renorm, false, false, false, false, 0, 0, false},
		{1, 8, 2, 512, 1376, mixed, bf16, layer, device.GELU, device.Routing{}, true, true, false, false, 0, 0, false},
		{1, 6, 6, 1056, 224, mixed, f32, rms, device.GELUTanh, top, false, true, false, false, 0, 0, false},
		{1, 16, 4, 320, 96, everyMix(), f16, layer, device.ReLU, device.Routing{Score: device.Sigmoid, Renorm: true, Scale: 0.5}, true, false, true, false, 0, 0, false},
		{1, 16, 6, 480, 160, mixed, f32, rms, device.SiLU, grouped, true, false, true, false, 0, 0, false},
		{1, 24, 3, 256, 64, mixed, f16, rms, device.SiLU, renorm, false, false, true, false, 0, 0, false},
		{1, 16, 2, 128, 64, mixed, f16, rms, device.SiLU, device.Routing{Score: device.SparseMixer, Jitter: 0.01}, false, false, false, false, 0, 0, false},
		{1, 12, 5, 128, 64, mixed, f16, rms, device.SiLU, renorm, false, false, false, false, 4, 0, false},
		{1, 4, 1, 4096, 7168, mixed[:1], f16, rms, device.SiLU, renorm, false, false, false, false, 0, 0, false},
		{1, 4, 3, 4160, 128, mixed[1:], f16, rms, device.SiLU, renorm, false, false, false, false, 0, 0, false},
		{1, 8, 3, 2080, 544, mixed[1:2], f16, rms, device.GELU, renorm, true, false, false, false, 0, 0, false},
		{1, 6, 4, 352, 416, mixed[2:], f16, rms, device.SiLU, top, false, true, false, false, 0, 0, false},
		{1, 9, 4, 8192, 96, everyMix()[:1], f16, rms, device.SiLU, renorm, false, false, false, false, 0, 0, false},
		{3, 8, 2, 256, 96, mixed, f16, rms, device.SiLU, renorm, true, false, false, false, 0, 0, false},
		{2, 8, 2, 256, 96, mixed, f16, rms, device.SiLU, renorm, true, true, false, false, 0, 0, false},
		{2, 12, 5, 128, 64, mixed[:1], bf16, layer, device.GELU, grouped, false, true, true, false, 0, 0, false},
		{1, 8, 2, 256, 96, []string{"1:4b_32g", ""}, f16, rms, device.SiLU, renorm, false, false, false, false, 0, 0, false},
		{1, 12, 5, 2048, 768, mixed[:1], f16, rms, device.ReLU, renorm, true, false, false, true, 0, 0, false},
		{2, 10, 3, 256, 96, mixed, f16, rms, device.ReLU, sigmoid, false, true, true, true, 0, 0, false},
		{5, 10, 3, 256, 160, mixed, f16, rms, device.ReLU, renorm, true, false, false, true, 0, 0, false},
		{2, 128, 6, 672, 480, mixed[:1], f16, rms, device.ReLU, sigmoid, true, false, true, true, 0, 0, false},
		{4, 20, 4, 256, 224, mixed, bf16, rms, device.SiLU, sigmoid, false, false, true, false, 0, 0, false},
		{8, 33, 2, 288, 96, mixed[:1], f16, rms, device.SiLU, renorm, true, false, false, false, 0, 0, false},
		{1, 256, 8, 256, 96, mixed[:1], f16, rms, device.SiLU, renorm, true, false, false, false, 0, 0, false},
		{2, 300, 10, 256, 64, mixed, f16, rms, device.SiLU, sigmoid, false, false, true, false, 0, 0, false},
		{1, 512, 10, 128, 64, mixed[:1], bf16, rms, device.SiLU, top, false, false, false, false, 300, 0, false},
		{1, 400, 9, 128, 64, mixed[1:], f16, layer, device.SiLU, renorm, false, true, false, false, 2, 0, false},
		{1, 192, 5, 256, 96, mixed[:1], f16, rms, device.ReLU, sigmoid, false, false, true, true, 0, 0, false},
		{2, 160, 6, 160, 96, mixed, f32, rms, device.ReLU, renorm, false, false, false, true, 7, 0, false},
		{1, 32, 4, 288, 288, mixed[:1], bf16, rms, limits, top, false, true, false, false, 0, 0, false},
		{1, 8, 4, 2880, 352, mixed[:1], bf16, rms, limits, top, false, true, false, false, 0, 0, false},
		{3, 12, 4, 256, 96, mixed, bf16, rms, limits, top, false, true, false, false, 0, 0, false},
		{2, 140, 5, 256, 64, mixed, f16, rms, limits, grouped, false, false, true, false, 0, 0, false},
		{1, 140, 8, 256, 96, mixed[:1], f16, rms, device.SiLU, renorm, true, false, false, false, 0, 1, false},
		{3, 12, 3, 320, 160, mixed, bf16, rms, device.SiLU, sigmoid, true, true, true, false, 0, 1, false},
		{1, 16, 4, 1056, 768, mixed[:1], f16, layer, device.GELU, renorm, true, true, false, false, 0, 1, false},
		{2, 16, 6, 480, 160, mixed, f32, rms, device.SiLU, grouped, true, true, true, false, 0, 1, false},
		{2, 32, 32, 128, 96, mixed[:1], f16, rms, limits, renorm, true, false, false, false, 0, 1, false},
		{12, 8, 2, 256, 96, mixed, f16, rms, device.SiLU, renorm, true, false, false, false, 0, 1, false},
		{1, 12, 3, 256, 96, mixed[:1], f16, rms, device.SiLU, renorm, true, false, false, false, 0, 2, false},
		{2, 140, 5, 288, 160, mixed, f16, rms, device.SiLU, renorm, true, true, false, false, 0, 3, false},
		{3, 16, 6, 512, 480, mixed[:1], f16, rms, device.ReLU, sigmoid, true, false, true, true, 0, 2, false},
		{1, 16, 4, 320, 544, mixed[1:2], f32, rms, device.GELU, grouped, true, false, true, false, 0, 2, false},
		{1, 192, 5, 256, 96, everyMix(), f16, rms, device.ReLU, sigmoid, true, true, true, true, 0, 4, false},
		{1, 12, 8, 2048, 768, mixed[:1], f16, rms, device.SiLU, renorm, true, false, false, false, 0, 2, false},
		{1, 128, 8, 288, 96, mixed[:1], bf16, rms, device.GELUTanh, renorm, false, false, false, false, 0, 0, true},
		{2, 12, 3, 2816, 704, mixed, f16, rms, device.GELUTanh, renorm, false, false, false, false, 0, 0, true},
		{3, 16, 4, 256, 96, mixed[:1], f32, rms, device.SiLU, device.Routing{Score: device.SoftmaxTop}, false, false, false, false, 0, 0, true},
		{1, 140, 6, 256, 96, mixed[:1], f16, rms, device.SiLU, renorm, false, false, false, false, 0, 0, true},
		{9, 8, 2, 256, 96, mixed[:1], f16, rms, device.SiLU, renorm, false, false, false, false, 0, 0, true},
	} {
		name := fmt.Sprintf("rows=%d experts=%d of %d %dx%d packed=%d %v act=%d score=%d groups=%d %v shared=%v biased=%v correction=%v", c.rows, c.chosen, c.experts, c.hidden, c.width, len(c.recipes), c.t, c.act, c.r.Score, c.r.Groups, c.norm.Kind, c.shared, c.biased, c.correction)
		if c.distinct > 0 {
			name += " equal"
		}
		if c.ungated {
			name += " ungated"
		}
		if c.whole > 0 {
			name += fmt.Sprint(" whole=", c.whole)
		}
		if c.apart {
			name += " apart"
		}
		cases = append(cases, testCase{name: name, limit: rowMixtureLimit, build: c.build})
	}
	return cases
}

func (c rowMixtureCase) build(f *fixture) func(device.Device) {
	return c.buildOf(f, scaled(noise(1), 5, 1))
}

// buildOf is build of some rows.
func (c rowMixtureCase) buildOf(f *fixture, v values) func(device.Device) {
	mix := c.mixing(f)
	x, y := f.in("x", residual, c.rows, c.hidden, v), f.inOut("y", residual, c.rows, c.hidden, noise(9))
	return func(d device.Device) { mix(d, y, x, nil) }
}

// linkedMixtureCases are mixtures between products of the same stream, of which the last may read what the mixture has
// left for them.
func linkedMixtureCases() (cases []testCase) {
	rms := device.Norm{Eps: 1e-5}
	for _, c := range []rowMixtureCase{
		{rows: 1, experts: 140, chosen: 3, hidden: 256, width: 64, norm: device.Norm{Eps: 1e-6, Offset: 1}, act: device.SiLU},
		{rows: 3, experts: 5, chosen: 2, hidden: 256, width: 96, norm: rms, act: device.SiLU},
		{rows: 2, experts: 5, chosen: 2, hidden: 256, width: 96, norm: rms, act: device.SiLU, shared: true},
		{rows: 3, experts: 33, chosen: 2, hidden: 256, width: 96, norm: rms, act: device.SiLU, shared: true},
		{rows: 1, experts: 12, chosen: 8, hidden: 2048, width: 256, norm: rms, act: device.SiLU, r: device.Routing{Renorm: true}},
		{rows: 1, experts: 5, chosen: 2, hidden: 4192, width: 96, norm: rms, act: device.GELU, biased: true, shared: true},
		{rows: 7, experts: 9, chosen: 4, hidden: 736, width: 96, norm: device.Norm{Eps: 1e-6, Offset: 1}, act: device.SiLU, shared: true},
		{rows: 2, experts: 9, chosen: 4, hidden: 736, width: 96, norm: rms, act: device.SiLU, shared: true, biased: true, whole: 3},
		{rows: 1, experts: 32, chosen: 4, hidden: 288, width: 96, norm: rms, act: limits, biased: true},
		{rows: 16, experts: 8, chosen: 3, hidden: 2080, width: 64, norm: rms, act: device.GELU, biased: true},
		{rows: 17, experts: 8, chosen: 2, hidden: 256, width: 64, norm: rms, act: device.SiLU},
	} {
		c.recipes, c.t = []string{"1:4b_128g", "0.3:5b_128g/0.7:3b_64g"}, tensor.F16
		for _, kind := range []string{"zeros", "outliers", "huge", ""} {
			name := fmt.Sprintf("rows=%d experts=%d of %d %dx%d %s", c.rows, c.chosen, c.experts, c.hidden, c.width, kind)
			v := scaled(noise(1), 5, 0)
			if kind != "" {
				v = oddRows(kind, c.rows, c.hidden)
			}
			cases = append(cases, testCase{name: name, limit: fusedLimit, build: func(f *fixture) func(device.Device) { return c.linked(f, v) }})
		}
	}
	return cases
}

// linked is products of a stream, a mixture that is added to it, and products again.
func (c rowMixtureCase) linked(f *fixture, v values) func(device.Device) {
	mix := c.mixing(f)
	stream, scale := f.inOut("stream", residual, c.rows, c.hidden, v), f.in("scale of products", tensor.F32, 1, c.hidden, scaled(noise(11), 0.1, 0))
	fc := fusedCase{recipe: "0.3:4b_128g/0.7:3b_64g"}
	of := func(name string, seed int) device.Products {
		y := f.out(name, activation, c.rows, 96)
		return device.Products{X: stream, Norm: c.norm, Scale: scale, List: []device.Product{{Y: y, W: fc.matrixOf(f, c.hidden, 96, seed)}}}
	}
	first, last := of("first", 2), of("last", 3)
	normed := f.spent("normed for products", activation, c.rows, c.hidden)
	return func(d device.Device) {
		multiplyStream(d, first, normed)
		last := last
		last.Left = mix(d, stream, stream, &last)
		multiplyStream(d, last, normed)
	}
}

// mixing returns what adds a mixture of x to y, and reports whether that may have been left for what reads it next.
func (c rowMixtureCase) mixing(f *fixture) func(d device.Device, y, x tensor.Tensor, reader *device.Products) (left bool) {
	routes := f.routesOut(c.rows, c.experts, c.chosen, c.shared)
	for i := range f.operands {
		f.operands[i].limit = &spent
	}
	to := device.Choice{Routes: routes, Logits: f.spent("logits", residual, c.rows, c.experts)}
	normed := f.spent("normed", activation, c.rows, c.hidden)
	r := c.router(f)
	if c.shared && c.biased {
		to.Gates, r.Gate = f.spent("gates of all", residual, c.rows, 1), f.in("gate", c.t, 1, c.hidden, c.weights(7))
	}
	e, all := c.matrices(f, normed)
	return func(d device.Device, y, x tensor.Tensor, reader *device.Products) (left bool) {
		e := e
		e.Reader = reader
		if fuser, ok := d.(device.Fuser); ok && fuser.Mixture(y, x, to, r, e) {
			return true
		}
		d.Choose(to, normed, x, r)
		if a := r.Apart; a != nil {
			d.Norm(normed, x, a.Scale, tensor.Tensor{}, a.Norm)
		}
		all(d)
		d.MixExperts(y, normed, e, to.Routes)
		return false
	}
}

// weights returns those of routers.
func (c rowMixtureCase) weights(seed int) values {
	return scaled(noise(seed), 6/float32(math.Sqrt(float64(c.hidden))), 0)
}

// router returns the router, without what belongs to the gate of the expert that all rows see.
func (c rowMixtureCase) router(f *fixture) device.Router {
	r := device.Router{Norm: c.norm, Scale: f.in("scale", tensor.F32, 1, c.hidden, scaled(noise(2), 0.3, 1-c.norm.Offset)), W: f.in("w", c.t, c.experts, c.hidden, c.repeated(c.weights(3))), Routing: c.r}
	if c.biased {
		r.Shift, r.Bias = f.in("shift", tensor.F32, 1, c.hidden, noise(4)), f.in("bias", tensor.F32, 1, c.experts, noise(5))
	}
	if c.correction {
		r.Correction = f.in("correction", tensor.F32, 1, c.experts, scaled(noise(6), 0.3, 0))
	}
	if c.apart {
		r.Scales = f.in("scales", tensor.F32, 1, c.experts, noise(12))
		r.Apart = &device.Weighing{Norm: device.Norm{Eps: c.norm.Eps, Offset: 1}, Scale: f.in("scale of experts", tensor.F32, 1, c.hidden, scaled(noise(13), 0.3, 0))}
	}
	return r
}

// matrices returns the experts, and what computes the one that all rows see of normed, if Mixture has not.
func (c rowMixtureCase) matrices(f *fixture, normed tensor.Tensor) (e device.Experts, all func(device.Device)) {
	n, rows := c.rows*c.chosen, c.rows*c.chosen // of chosen experts, and of all
	if c.shared {
		rows += c.rows
	}
	k := c.kins(f, "", c.experts, c.width)
	e = device.Experts{Groups: f.groupsOf(k), Unit: unitOf(c.act), Scale: 0.75, Ups: f.spent("ups", activation, n, c.width)}
	if !c.ungated {
		e.Gates = f.spent("gates", activation, n, c.width)
	}
	e.Each = f.inOut("each", activation, rows, c.hidden, func(i int) float32 {
		if i < n*c.hidden {
			return nan
		}
		return noise(8)(i)
	})
	f.within(spent)
	if c.whole == 0 {
		return e, func(device.Device) {}
	}
	one := c.kins(f, " of all", 1, c.whole*c.width)
	if _, ok := f.dev.(device.Fuser); ok {
		w := f.groupsOf(kins{k.gate.and(one.gate), k.up.and(one.up), k.down.and(one.down)})
		e.Whole = &w
	}
	return e, c.multiplying(f, e.Each.Slice(n, rows), normed, one, e.Unit)
}

// kins are the matrices of experts; without gates, these are none.
type kins struct{ gate, up, down kin }

// kins returns the matrices of so many experts.
func (c rowMixtureCase) kins(f *fixture, name string, experts, width int) (k kins) {
	of := func(place string, in, out int) kin {
		return f.kinOf(place+name, experts, in, out, tensor.F16, c.recipes, c.biased)
	}
	k.up, k.down = of("up", c.hidden, width), of("down", width, c.hidden)
	if !c.ungated {
		k.gate = of("gate", c.hidden, width)
	}
	return k
}

// groupsOf makes groups that are freed with the fixture.
func (f *fixture) groupsOf(k kins) device.Groups {
	g := device.Groups{Up: f.group(k.up), Down: f.group(k.down)}
	if k.gate.packed != nil {
		g.Gate = f.group(k.gate)
	}
	return g
}

// multiplying returns what computes an expert: y = down·unit(gate·x, up·x).
func (c rowMixtureCase) multiplying(f *fixture, y, x tensor.Tensor, k kins, unit device.Unit) func(device.Device) {
	width := c.whole * c.width
	ups := f.spent("ups of all rows", activation, c.rows, width)
	gates := ups
	if !c.ungated {
		gates = f.spent("gates of all rows", activation, c.rows, width)
	}
	return func(d device.Device) {
		k.up.multiply(d, ups, x)
		if !c.ungated {
			k.gate.multiply(d, gates, x)
		}
		unit.Apply(d, gates, gates, ups)
		k.down.multiply(d, y, gates)
	}
}

// multiply is y = x·Wᵀ of the first one.
func (k kin) multiply(d device.Device, y, x tensor.Tensor) {
	bias := tensor.Tensor{}
	if k.biases != nil {
		bias = k.biases[0]
	}
	d.QMatMul(y, x, k.packed[0], bias)
}

// repeated returns values of the router's rows, of which only some are distinct.
func (c rowMixtureCase) repeated(v values) values {
	if c.distinct == 0 {
		return v
	}
	return func(i int) float32 { return v(i % (c.distinct * c.hidden)) }
}
