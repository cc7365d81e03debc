package devtest

import (
	"fmt"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/cpu"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// trainGroups lists the cases of every operation of device.Train.
func trainGroups() []group {
	return []group{
		{"Draw", withGaps(drawCases())},
		{"DivergenceBack", withGaps(divergenceBackCases())},
		{"ProductsBack", withGaps(productsBackCases())},
		{"AttendBackHalf", withGaps(attendBackHalfCases())},
		{"RoundLatent", roundLatentCases()},
		{"TrainLatent", trainLatentCases()},
	}
}

// RunTrain checks every operation of device.Train, as RunQuantize does those of
// device.Quantize.
func RunTrain(t *testing.T, open func(t testing.TB) device.Train) {
	ref, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range trainGroups() {
		t.Run(g.name, func(t *testing.T) {
			runCases(t, ref, opened(t, func(t testing.TB) device.Device { return open(t) }), g.cases)
		})
	}
}

// training makes a case of an operation of device.Train.
func training(name string, l limit, build func(f *fixture) func(d device.Train)) testCase {
	return testCase{name: name, limit: l, build: func(f *fixture) func(device.Device) {
		call := build(f)
		return func(d device.Device) { call(d.(device.Train)) }
	}}
}

func drawCases() (cases []testCase) {
	for _, c := range drawings {
		cases = append(cases, training(c.name, exact, func(f *fixture) func(device.Train) {
			ids := f.intsOut("ids", 1, c.rows, repeat(-7, c.rows))
			x := f.inOut("x", residual, c.rows, c.cols, c.v)
			f.within(limit{any: true})
			random := f.in("random", tensor.F32, 1, c.rows, c.random)
			return func(d device.Train) { d.Draw(ids, x, random) }
		}))
	}
	return cases
}

func divergenceBackCases() (cases []testCase) {
	for _, c := range []struct {
		name         string
		rows, cols   int
		x, reference values
	}{
		{"none", 0, 10, noise(1), noise(2)},
		{"one column", 3, 1, noise(1), noise(2)},
		{"few columns", 200, 7, scaled(noise(2), 3, 0), scaled(noise(3), 3, 0)},
		{"vocabulary", 3, 128256, scaled(noise(4), 8, 0), scaled(noise(5), 8, 0)},
		{"odd vocabulary", 5, 50257, scaled(noise(5), 2, -100), scaled(noise(6), 2, 100)},
		{"many rows", 256, 1000, scaled(noise(7), 10, 50), scaled(noise(8), 10, 0)},
		{"the same", 4, 600, scaled(noise(9), 5, 0), scaled(noise(9), 5, 0)},
		{"one that is sure", 2, 3000, scaled(noise(10), 3, 0), withAt(constant(-200), 100, 1234, 4000)},
		{"impossible in the source", 3, 100, noise(11), withAt(noise(12), -infinity, 0, 5, 99, 150)},
	} {
		l := limit{abs: 1e-6, rel: 1e-5, why: "exponentials and logarithms in float32"}
		cases = append(cases, training(c.name, l, func(f *fixture) func(device.Train) {
			divergence := f.out("divergence", tensor.F32, 1, c.rows)
			x, reference := f.inOut("x", residual, c.rows, c.cols, c.x), f.in("reference", residual, c.rows, c.cols, c.reference)
			return func(d device.Train) { d.DivergenceBack(divergence, x, reference) }
		}))
	}
	return cases
}

// productsBackLimit is that of sums of products with a rounded number.
var productsBackLimit = limit{rms: 2e-3, nmse: 1e-6, why: "gradients rounded to fp16; sums in another order"}

func productsBackCases() (cases []testCase) {
	for _, c := range []struct {
		rows, in int
		outs     []int
		dy       values
		noDX     bool
	}{
		{rows: 0, in: 64, outs: []int{64}}, {rows: 1, in: 8, outs: []int{8}}, {rows: 3, in: 33, outs: []int{130}}, {rows: 70, in: 256, outs: []int{640, 128, 128}}, {rows: 300, in: 130, outs: []int{65, 7}},
		{rows: 2048, in: 384, outs: []int{384, 128, 128}}, {rows: 5000, in: 96, outs: []int{352, 352}}, {rows: 64, in: 64, outs: []int{64, 96}, noDX: true}, {rows: 200, in: 96, outs: []int{5000}, dy: scaled(noise(2), 1e-9, 0)},
		{rows: 65, in: 200, outs: []int{72}, dy: scaled(noise(2), 1e9, 0)}, {rows: 33, in: 64, outs: []int{96}, dy: constant(0)}, {rows: 130, in: 64, outs: []int{96, 32}, dy: withAt(small(2), 30, 77, 130*96)},
	} {
		if c.dy == nil {
			c.dy = small(2)
		}
		test := training(fmt.Sprintf("rows=%d in=%d outs=%v dx=%v", c.rows, c.in, c.outs, !c.noDX), productsBackLimit, func(f *fixture) func(device.Train) {
			var dx tensor.Tensor
			if !c.noDX {
				dx = f.inOut("dx", residual, c.rows, c.in, constant(0))
			}
			x := f.in("x", activation, c.rows, c.in, noise(3))
			var list []device.Passed
			for i, out := range c.outs {
				list = append(list, device.Passed{
					DY: f.in(fmt.Sprintf("dy%d", i), residual, c.rows, out, c.dy),
					W:  f.in(fmt.Sprintf("w%d", i), activation, out, c.in, noise(4+i)),
					DW: f.inOut(fmt.Sprintf("dw%d", i), tensor.F32, out, c.in, constant(0)),
				})
			}
			return func(d device.Train) {
				d.ProductsBack(dx, list, x)
				d.ProductsBack(dx, list, x)
			}
		})
		test.direct = true
		cases = append(cases, test)
	}
	return cases
}

// attendBackHalfCases are those of AttendBack, behind attention itself.
func attendBackHalfCases() (cases []testCase) {
	l := limit{rms: 2e-2, nmse: 2e-5, why: "gradients, weights and results rounded to fp16"}
	for _, c := range attendBacks {
		if c.latent > 0 {
			continue // latents have caches of another kind
		}
		test := training(fmt.Sprintf("%+v", c), l, func(f *fixture) func(device.Train) {
			x := c.arguments(f)
			cache := f.cache(c.layout().shape())
			y := f.out("y", activation, c.rows(), c.heads*c.dim)
			f.within(limit{any: true})
			return func(d device.Train) {
				d.Store(cache, 1, x.k, x.v, x.b)
				d.Attend(y, x.q, cache, 1, x.a, x.b)
				d.AttendBackHalf(x.dq, x.dk, x.dv, x.dy, y, x.q, x.k, x.v, x.a, x.b)
			}
		})
		test.direct = true
		cases = append(cases, test)
	}
	return cases
}

// weight allocates a matrix of the activation type without gaps.
func (f *fixture) weight(out, in int) tensor.Tensor {
	return f.out("w", f.dev.Activation(), out, in)
}

// latent allocates a latent of a recipe's groups, whose inputs are shuffled.
func (f *fixture) latent(out, in int, recipe string, v values) device.Latent {
	groups := exl2.MustRecipe(recipe).Groups(in)
	of := make([]int32, in)
	for g, x := range groups {
		for i := range x.Rows {
			of[x.Row+i] = int32(g)
		}
	}
	group := make([]int32, in)
	for i, at := range shuffled(5, in) {
		group[i] = of[at]
	}
	return device.Latent{
		V:     f.inOut("v", tensor.F32, out, in, v),
		Scale: f.in("scale", tensor.F32, out, len(groups), scaled(noise(21), 0.01, 0.02)),
		Group: f.ints("group", 1, in, group),
		Zero:  f.in("zero", tensor.F32, 1, len(groups), func(i int) float32 { return float32(int(1) << (groups[i].Bits - 1)) }),
	}
}

// latents are shapes and recipes of matrices, with values that reach beyond their codes.
var latents = []struct {
	out, in int
	recipe  string
	v       values
}{
	{32, 32, "1:4b_32g", scaled(noise(1), 8, 0)},
	{96, 352, "0.2:8b_32g/0.8:2b_96g", scaled(noise(2), 3, 0)},
	{40, 1024, "0.5:5b_32g/0.5:3b_64g", scaled(noise(3), 20, 0)},
	{7, 64, "1:6b_64g", func(i int) float32 { return float32(i%65-32) / 2 }},
}

func roundLatentCases() (cases []testCase) {
	for _, c := range latents {
		cases = append(cases, training(fmt.Sprintf("%dx%d %s", c.out, c.in, c.recipe), exact, func(f *fixture) func(device.Train) {
			w, l := f.weight(c.out, c.in), f.latent(c.out, c.in, c.recipe, c.v)
			return func(d device.Train) { d.RoundLatent(w, l) }
		}))
	}
	return cases
}

func trainLatentCases() (cases []testCase) {
	first := device.Adam{Rate: 0.3, Beta1: 0.9, Beta2: 0.95, First: 10, Second: 20, Eps: 1e-8}
	later := device.Adam{Rate: 0.002, Beta1: 0.9, Beta2: 0.95, First: 1, Second: 1, Eps: 1e-4, Pull: 0.01}
	for _, c := range latents {
		for _, a := range []device.Adam{first, later} {
			cases = append(cases, training(fmt.Sprintf("%dx%d %s rate %g", c.out, c.in, c.recipe, a.Rate), exact, func(f *fixture) func(device.Train) {
				w, l := f.weight(c.out, c.in), f.latent(c.out, c.in, c.recipe, c.v)
				m, s := f.inOut("first", tensor.BF16, c.out, c.in, small(6)), f.inOut("second", tensor.BF16, c.out, c.in, func(i int) float32 { return small(7)(i) * small(7)(i) })
				dw := f.in("dw", tensor.F32, c.out, c.in, scaled(noise(8), 1e-3, 0))
				return func(d device.Train) { d.TrainLatent(w, l, m, s, dw, a) }
			}))
		}
	}
	return cases
}
