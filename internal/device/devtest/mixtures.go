package devtest

import (
	"fmt"
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// routesOut allocates what Route writes.
func (f *fixture) routesOut(rows, experts, chosen int, shared bool) device.Routes {
	columns := chosen
	if shared {
		columns++
	}
	n := rows * chosen
	return device.Routes{
		Rows: f.intsOut("rows", 1, n, repeat(-7, n)), Experts: f.intsOut("experts", 1, n, repeat(-7, n)), First: f.intsOut("first", 1, experts+1, repeat(-7, experts+1)),
		Places: f.intsOut("places", rows, columns, repeat(-7, rows*columns)), Weights: f.out("weights", tensor.F32, rows, columns),
	}
}

func routeCases() (cases []testCase) {
	limit := limit{abs: 1e-7, rel: 1e-5, why: "exponentials and sums in float32"}
	for _, c := range []struct {
		name                  string
		rows, experts, chosen int
		r                     device.Routing
		correction            bool
		shared, gate          bool
		v                     values
	}{
		{name: "none", experts: 8, chosen: 2, v: noise(1)},
		{name: "one expert", rows: 3, experts: 1, chosen: 1, v: noise(1)},
		{name: "mixtral", rows: 1, experts: 8, chosen: 2, r: device.Routing{Renorm: true}, v: scaled(noise(2), 4, 0)},
		{name: "qwen", rows: 1, experts: 128, chosen: 8, r: device.Routing{Renorm: true}, v: scaled(noise(3), 4, 0)},
		{name: "qwen with gate", rows: 5, experts: 60, chosen: 4, shared: true, gate: true, v: scaled(noise(4), 4, 0)},
		{name: "granite", rows: 63, experts: 40, chosen: 8, r: device.Routing{Score: device.SoftmaxTop}, shared: true, v: scaled(noise(5), 4, 0)},
		{name: "granite, many rows", rows: 513, experts: 40, chosen: 8, r: device.Routing{Score: device.SoftmaxTop}, shared: true, v: scaled(noise(6), 4, 0)},
		{name: "deepseek2", rows: 9, experts: 160, chosen: 6, r: device.Routing{Groups: 8, TopGroups: 3, GroupMax: true, Scale: 16}, shared: true, v: scaled(noise(7), 4, 0)},
		{name: "deepseek3", rows: 3, experts: 256, chosen: 8, r: device.Routing{Score: device.Sigmoid, Groups: 8, TopGroups: 4, Renorm: true, RenormEps: 1e-20, Scale: 2.5}, correction: true, shared: true, v: scaled(noise(8), 4, 0)},
		{name: "deepseek3, many rows", rows: 300, experts: 256, chosen: 8, r: device.Routing{Score: device.Sigmoid, Groups: 8, TopGroups: 4, Renorm: true, RenormEps: 1e-20, Scale: 2.5}, correction: true, v: scaled(noise(9), 4, 0)},
		{name: "corrected", rows: 33, experts: 384, chosen: 8, r: device.Routing{Score: device.Sigmoid, Renorm: true}, correction: true, v: scaled(noise(10), 4, 0)},
		{name: "phimoe", rows: 20, experts: 16, chosen: 2, r: device.Routing{Score: device.SparseMixer, Jitter: 0.01}, v: scaled(noise(11), 4, 0)},
		{name: "phimoe, many rows", rows: 700, experts: 16, chosen: 2, r: device.Routing{Score: device.SparseMixer, Jitter: 0.2}, v: scaled(noise(12), 4, 0)},
		{name: "one of many", rows: 70, experts: 128, chosen: 1, r: device.Routing{Score: device.Sigmoid}, shared: true, v: scaled(noise(13), 4, 0)},
		{name: "many experts", rows: 200, experts: 512, chosen: 10, r: device.Routing{Renorm: true}, v: scaled(noise(14), 4, 0)},
		{name: "all of them", rows: 80, experts: 16, chosen: 16, r: device.Routing{Renorm: true}, v: scaled(noise(15), 4, 0)},
		{name: "ties", rows: 100, experts: 64, chosen: 8, v: list(0, 1, 0.5, 1, 1)},
		{name: "all equal", rows: 3, experts: 100, chosen: 6, r: device.Routing{Score: device.Sigmoid, Groups: 5, TopGroups: 2}, v: constant(-3)},
		{name: "large", rows: 5, experts: 32, chosen: 4, r: device.Routing{Renorm: true}, v: scaled(noise(16), 1e4, 0)},
	} {
		cases = append(cases, testCase{name: c.name, limit: limit, build: func(f *fixture) func(device.Device) {
			to := f.routesOut(c.rows, c.experts, c.chosen, c.shared)
			logits, correction, gate := f.in("logits", residual, c.rows, c.experts, c.v), tensor.Tensor{}, tensor.Tensor{}
			if c.correction {
				correction = f.in("correction", tensor.F32, 1, c.experts, scaled(noise(20), 0.3, 0))
			}
			if c.gate {
				gate = f.in("gate", residual, c.rows, 1, scaled(noise(21), 5, 0))
			}
			return func(d device.Device) { d.Route(to, logits, correction, tensor.Tensor{}, gate, c.r) }
		}})
	}
	return cases
}

// routes allocates a choice without meaning, in which every third expert sees no
// rows, and an early one all.
func (f *fixture) routes(rows, experts, chosen int) device.Routes {
	first, order, ids, places := make([]int32, experts+1), []int32{}, []int32{}, make([]int32, rows*chosen)
	usual := func(row, k int) int32 { // the kth expert of a row
		if k == 0 {
			return int32(min(1, experts-1))
		}
		return int32((2 + row*(k+1) + k*5) % experts)
	}
	for e := range experts {
		first[e] = int32(len(order))
		for row := range rows {
			for k := range chosen {
				if usual(row, k) == int32(e) {
					places[row*chosen+k] = int32(len(order))
					order, ids = append(order, int32(row)), append(ids, int32(e))
				}
			}
		}
	}
	first[experts] = int32(len(order))
	n := rows * chosen
	return device.Routes{
		Rows: f.ints("rows", 1, n, order), Experts: f.ints("experts", 1, n, ids), First: f.ints("first", 1, experts+1, first),
		Places: f.ints("places", rows, chosen, places), Weights: f.in("weights", tensor.F32, rows, chosen, noise(30)),
	}
}

// A kin is a matrix of every expert, with its bias.
type kin struct {
	packed        []device.Matrix
	dense, biases []tensor.Tensor
}

// and returns those of k and of others behind.
func (k kin) and(of kin) kin {
	return kin{slices.Concat(k.packed, of.packed), slices.Concat(k.dense, of.dense), slices.Concat(k.biases, of.biases)}
}

// kinOf makes matrices, packed where there is a recipe.
func (f *fixture) kinOf(name string, experts, in, out int, t tensor.Type, recipes []string, biased bool) (k kin) {
	for e := range experts {
		m, w := device.Matrix(nil), tensor.Tensor{}
		if len(recipes) > 0 && recipes[e%len(recipes)] != "" {
			m = f.matrix(quantized(in, out, recipes[e%len(recipes)]), out)
		} else {
			w = f.in(fmt.Sprint(name, e), t, out, in, noise(40+e))
		}
		k.packed, k.dense = append(k.packed, m), append(k.dense, w)
		if biased {
			k.biases = append(k.biases, f.in(fmt.Sprint(name, " bias ", e), tensor.F32, 1, out, scaled(noise(80+e), 3, 0)))
		}
	}
	return k
}

// group makes a group that is freed with the fixture.
func (f *fixture) group(k kin) device.Group {
	g := f.dev.Group(k.packed, k.dense, k.biases)
	f.groups = append(f.groups, g)
	return g
}

// groupOf makes a group of kin.
func (f *fixture) groupOf(name string, experts, in, out int, t tensor.Type, recipes []string, biased bool) device.Group {
	return f.group(f.kinOf(name, experts, in, out, t, recipes, biased))
}

// limits in place of an activation function is a unit whose operands are limited.
const limits device.Act = 99

// unitOf returns the unit of an activation function, or that of limits.
func unitOf(act device.Act) device.Unit {
	if act == limits {
		return device.Unit{Clamp: device.Clamp{Limit: 1.5, Up: 1.25, Alpha: 1.702, Added: 1}}
	}
	return device.Unit{Act: act}
}

// rotated is recipes from the second one on, and the first.
func rotated(recipes []string) []string {
	if len(recipes) == 0 {
		return nil
	}
	return append(slices.Clone(recipes[1:]), recipes[0])
}

func groupMulCases() (cases []testCase) {
	mixed := []string{"1:4b_128g", "0.3:5b_128g/0.7:3b_64g", "0.1:8b_32g/0.1:6b_64g/0.8:2b_32g"}
	for _, c := range []struct {
		rows, experts, chosen int
		in, out               int
		recipes               []string
		t                     tensor.Type
		two, biased, gathered bool
	}{
		{0, 4, 2, 64, 64, mixed, 0, false, false, false},
		{1, 1, 1, 32, 8, mixed, 0, false, false, false},
		{1, 8, 2, 256, 96, mixed, 0, true, false, false},
		{1, 128, 8, 2048, 96, mixed[:1], 0, true, true, false},
		{1, 16, 8, 768, 2048, mixed, 0, false, true, true},
		{3, 8, 2, 512, 100, mixed, 0, true, true, false},
		{9, 6, 3, 1024, 160, mixed, 0, true, false, false},
		{40, 5, 2, 480, 96, everyMix(), 0, false, false, true},
		{70, 4, 2, 352, 33, mixed, 0, true, true, false},
		{40, 9, 2, 640, 290, mixed, 0, true, false, false},
		{100, 5, 2, 256, 800, mixed[:1], 0, true, true, true},
		{300, 3, 2, 1120, 96, everyMix(), 0, true, false, false},
		{600, 4, 2, 512, 520, mixed, 0, false, true, false},
		{40, 3, 2, 14336, 96, mixed, 0, false, true, true},
		{5, 3, 1, 11008, 64, mixed, 0, false, false, false},
		{16, 64, 8, 2048, 768, mixed[:1], 0, true, false, false},
		{8, 32, 4, 768, 2048, mixed, 0, false, true, true},
		{6, 4, 2, 14336, 96, mixed, 0, false, false, false},
		{2, 4, 2, 4096, 608, mixed[:2], 0, true, false, false},
		{0, 4, 2, 64, 64, nil, tensor.F16, false, false, false},
		{1, 8, 2, 256, 96, nil, tensor.F16, true, true, false},
		{7, 5, 3, 100, 33, nil, tensor.BF16, true, false, true},
		{40, 4, 2, 129, 65, nil, tensor.F32, false, true, false},
		{1, 9, 4, 256, 96, []string{"1:4b_128g", "", "1:3b_64g"}, tensor.F16, true, true, false},
		{20, 5, 3, 160, 65, []string{"", "1:4b_32g"}, tensor.BF16, false, false, true},
	} {
		name := fmt.Sprintf("rows=%d experts=%d of %d %dx%d packed=%v %v two=%v biased=%v gathered=%v", c.rows, c.chosen, c.experts, c.in, c.out, c.recipes != nil, c.t, c.two, c.biased, c.gathered)
		cases = append(cases, testCase{name: name, limit: productLimit, build: func(f *fixture) func(device.Device) {
			r, n := f.routes(c.rows, c.experts, c.chosen), c.rows*c.chosen
			ys, groups := []tensor.Tensor{f.out("y", activation, n, c.out)}, []device.Group{f.groupOf("w", c.experts, c.in, c.out, c.t, c.recipes, c.biased)}
			if c.two {
				ys, groups = append(ys, f.out("second y", activation, n, c.out+7)), append(groups, f.groupOf("second w", c.experts, c.in, c.out+7, c.t, rotated(c.recipes), c.biased))
			}
			x, rows := f.in("x", activation, c.rows, c.in, noise(1)), r.Rows
			if c.gathered {
				x, rows = f.in("x", activation, n, c.in, noise(2)), tensor.Tensor{}
			}
			return func(d device.Device) { d.GroupMul(ys, x, rows, groups, r) }
		}})
	}
	return cases
}
