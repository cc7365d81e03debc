package devtest

import (
	"fmt"
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// mixtureLimit is that of what follows several products.
var mixtureLimit = limit{rms: 1e-2, rel: 4 * ulp, nmse: 1e-5, why: "sums in another order; roundings to fp16 between products"}

func chooseCases() (cases []testCase) {
	rms, layer := device.Norm{Eps: 1e-5}, device.Norm{Kind: device.Layer, Eps: 1e-6, Offset: 1}
	renorm, grouped := device.Routing{Renorm: true}, device.Routing{Score: device.Sigmoid, Groups: 8, TopGroups: 4, Renorm: true, RenormEps: 1e-20, Scale: 2.5}
	for _, c := range []struct {
		rows, in, experts, chosen int
		t                         tensor.Type
		norm                      device.Norm
		r                         device.Routing
		shared, gate              bool
		biased, correction        bool
		scales                    bool
	}{
		{rows: 2, in: 256, experts: 128, chosen: 8, t: tensor.F16, norm: rms, r: renorm, scales: true},
		{rows: 30, in: 64, experts: 16, chosen: 3, t: tensor.F16, norm: rms, r: renorm, shared: true, scales: true},
		{rows: 0, in: 64, experts: 8, chosen: 2, t: tensor.F16, norm: rms, r: renorm},
		{rows: 1, in: 32, experts: 3, chosen: 1, t: tensor.F16, norm: rms, r: renorm},
		{rows: 1, in: 2048, experts: 128, chosen: 8, t: tensor.F16, norm: rms, r: renorm},
		{rows: 1, in: 4096, experts: 8, chosen: 2, t: tensor.BF16, norm: rms, r: renorm},
		{rows: 2, in: 1000, experts: 60, chosen: 4, t: tensor.F32, norm: layer, shared: true, gate: true, biased: true},
		{rows: 3, in: 2880, experts: 32, chosen: 4, t: tensor.BF16, norm: rms, r: device.Routing{Score: device.SoftmaxTop}, biased: true},
		{rows: 5, in: 7168, experts: 256, chosen: 8, t: tensor.F32, norm: rms, r: grouped, correction: true, shared: true},
		{rows: 8, in: 515, experts: 500, chosen: 10, t: tensor.F16, norm: layer, r: renorm, shared: true, gate: true},
		{rows: 4, in: 2048, experts: 128, chosen: 8, t: tensor.F16, norm: rms, r: renorm, shared: true, gate: true, biased: true},
		{rows: 16, in: 2120, experts: 61, chosen: 4, t: tensor.BF16, norm: rms, r: renorm, shared: true, gate: true},
		{rows: 7, in: 40, experts: 5, chosen: 2, t: tensor.F32, norm: device.Norm{Eps: 1e-6, Offset: 1}, r: renorm},
		{rows: 20, in: 256, experts: 40, chosen: 8, t: tensor.F16, norm: rms, r: renorm, shared: true, gate: true},
	} {
		name := fmt.Sprintf("rows=%d experts=%d of %d in=%d %v score=%d groups=%d %v shared=%v gate=%v biased=%v scales=%v", c.rows, c.chosen, c.experts, c.in, c.t, c.r.Score, c.r.Groups, c.norm.Kind, c.shared, c.gate, c.biased, c.scales)
		cases = append(cases, testCase{name: name, limit: mixtureLimit, build: func(f *fixture) func(device.Device) {
			weights := func(seed int) values { return scaled(noise(seed), 6/float32(math.Sqrt(float64(c.in))), 0) }
			to := device.Choice{Routes: f.routesOut(c.rows, c.experts, c.chosen, c.shared), Logits: f.out("logits", residual, c.rows, c.experts)}
			x, y := f.in("x", residual, c.rows, c.in, scaled(noise(1), 5, 1)), f.out("y", activation, c.rows, c.in)
			r := device.Router{Norm: c.norm, Scale: f.in("scale", tensor.F32, 1, c.in, scaled(noise(2), 0.3, 1)), W: f.in("w", c.t, c.experts, c.in, weights(3)), Routing: c.r}
			if c.biased {
				r.Bias = f.in("bias", tensor.F32, 1, c.experts, noise(5))
			}
			if c.scales {
				r.Scales = f.in("scales", tensor.F32, 1, c.experts, noise(9))
			}
			if c.biased && c.norm.Kind == device.Layer {
				r.Shift = f.in("shift", tensor.F32, 1, c.in, noise(4))
			}
			if c.correction {
				r.Correction = f.in("correction", tensor.F32, 1, c.experts, scaled(noise(6), 0.3, 0))
			}
			if c.gate {
				to.Gates, r.Gate = f.out("gates", residual, c.rows, 1), f.in("gate", c.t, 1, c.in, weights(7))
				r.Offset = f.bias(1, c.biased)
			}
			return func(d device.Device) { d.Choose(to, y, x, r) }
		}})
	}
	return cases
}

func mixExpertsCases() (cases []testCase) {
	mixed := []string{"1:4b_128g", "0.3:5b_128g/0.7:3b_64g", "0.1:8b_32g/0.1:6b_64g/0.8:2b_32g"}
	for _, c := range []struct {
		rows, experts, chosen int
		hidden, width         int
		recipes               []string
		t                     tensor.Type
		act                   device.Act
		shared, biased        bool
		ungated               bool
	}{
		{0, 4, 2, 64, 64, mixed, 0, device.SiLU, false, false, false},
		{1, 1, 1, 32, 32, mixed, 0, device.SiLU, false, false, false},
		{1, 10, 8, 2048, 768, mixed[:1], 0, device.SiLU, false, false, false},
		{1, 8, 2, 512, 1376, mixed, 0, device.GELU, true, true, false},
		{2, 16, 6, 320, 224, mixed, 0, device.GELUTanh, false, true, false},
		{3, 4, 4, 256, 96, mixed, 0, device.ReLU, true, false, false},
		{9, 6, 3, 1024, 160, mixed, 0, device.SiLU, true, false, false},
		{3, 24, 6, 160, 96, mixed, 0, device.SiLU, false, true, false},
		{5, 40, 8, 1024, 512, mixed, 0, device.SiLU, true, false, false},
		{13, 24, 6, 512, 768, mixed[:1], 0, device.SiLU, false, true, false},
		{40, 5, 2, 480, 96, everyMix(), 0, device.SiLU, false, false, false},
		{70, 8, 3, 256, 160, mixed, 0, device.GELU, true, true, false},
		{300, 5, 2, 480, 320, mixed, 0, device.SiLU, false, false, false},
		{1, 8, 2, 256, 96, nil, tensor.F16, device.SiLU, true, true, false},
		{7, 5, 3, 100, 33, nil, tensor.BF16, device.SiLU, false, false, false},
		{2, 6, 3, 128, 96, []string{"", "1:4b_32g"}, tensor.F16, device.SiLU, false, false, false},
		{3, 24, 6, 160, 96, mixed, 0, device.ReLU, true, false, true},
		{5, 12, 4, 288, 160, mixed, 0, limits, false, true, false},
		{12, 24, 4, 256, 96, mixed[:1], 0, limits, true, true, false},
		{300, 5, 2, 480, 320, mixed, 0, limits, false, true, false},
		{7, 5, 3, 100, 33, nil, tensor.BF16, limits, false, false, false},
		{300, 5, 2, 480, 320, mixed, 0, device.ReLU, false, true, true},
		{7, 5, 3, 100, 33, nil, tensor.BF16, device.ReLU, false, false, true},
	} {
		name := fmt.Sprintf("rows=%d experts=%d of %d %dx%d packed=%v %v act=%d shared=%v biased=%v", c.rows, c.chosen, c.experts, c.hidden, c.width, c.recipes != nil, c.t, c.act, c.shared, c.biased)
		if c.ungated {
			name += " ungated"
		}
		cases = append(cases, testCase{name: name, limit: mixtureLimit, build: func(f *fixture) func(device.Device) {
			r, n := f.routes(c.rows, c.experts, c.chosen), c.rows*c.chosen
			of := func(name string, in, out int) device.Group {
				return f.groupOf(name, c.experts, in, out, c.t, c.recipes, c.biased)
			}
			rows := n
			if c.shared {
				r, rows = f.withShared(r, c.rows, c.chosen), n+c.rows
			}
			y, x := f.inOut("y", residual, c.rows, c.hidden, noise(1)), f.in("x", activation, c.rows, c.hidden, noise(2))
			e := device.Experts{Groups: device.Groups{Up: of("up", c.hidden, c.width), Down: of("down", c.width, c.hidden)}, Unit: unitOf(c.act), Scale: 0.75}
			spare := func(name string, rows, cols int, v values) tensor.Tensor {
				t := f.inOut(name, activation, rows, cols, v)
				f.within(spent)
				return t
			}
			if !c.ungated {
				e.Gate, e.Gates = of("gate", c.hidden, c.width), spare("gates", n, c.width, nothing)
			}
			e.Ups = spare("ups", n, c.width, nothing)
			e.Each = spare("each", rows, c.hidden, func(i int) float32 {
				if i < n*c.hidden {
					return nan
				}
				return noise(3)(i)
			})
			return func(d device.Device) { d.MixExperts(y, x, e, r) }
		}})
	}
	return cases
}

// withShared adds an expert that all rows see.
func (f *fixture) withShared(r device.Routes, rows, chosen int) device.Routes {
	first := make([]int32, rows*chosen)
	f.dev.Download(tensor.BytesOf(first), r.Places)
	var places []int32
	for row := range rows {
		places = append(append(places, first[row*chosen:(row+1)*chosen]...), int32(rows*chosen+row))
	}
	r.Places, r.Weights = f.ints("all places", rows, chosen+1, places), f.in("all weights", tensor.F32, rows, chosen+1, noise(31))
	return r
}
