package devtest

import (
	"fmt"
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// momentSums is how far moments may be off: as float32's sums are, whatever the rows.
var momentSums = limit{rms: 2e-5, rel: 1e-5, nmse: 1e-11, why: "sums in float32, in another order"}

func gramCases() (cases []testCase) {
	limit := momentSums
	for _, c := range []struct {
		rows, k, cols int
		x, y          tensor.Type
	}{
		{0, 64, 64, activation, activation}, {1, 32, 32, activation, activation}, {3, 40, 7, activation, activation}, {70, 33, 130, activation, activation},
		{300, 256, 64, activation, activation}, {300, 256, 128, residual, activation}, {130, 96, 160, activation, residual}, {2048, 192, 192, residual, residual},
	} {
		cases = append(cases, testCase{name: fmt.Sprintf("rows=%d k=%d x=%s cols=%d y=%s", c.rows, c.k, typeName(c.x), c.cols, typeName(c.y)), limit: limit, direct: true,
			build: func(f *fixture) func(device.Device) {
				h := f.inOut("h", tensor.F32, c.k, c.cols, noise(1))
				x, y := f.in("x", c.x, c.rows, c.k, noise(2)), f.in("y", c.y, c.rows, c.cols, noise(3))
				return quantizing(func(d device.Quantize) { d.Gram(h, x, y) })
			}})
	}
	for _, c := range []struct {
		rows, k int
		x       tensor.Type
		v       values
	}{
		{0, 32, activation, noise(4)}, {1, 32, activation, noise(4)}, {257, 96, activation, noise(4)}, {64, 513, activation, noise(4)}, {1000, 256, activation, scaled(noise(4), 1, 3)},
		{512, 128, residual, noise(5)}, {100, 64, activation, withRow(noise(6), 50, 64, 1000)}, {100, 64, activation, withRow(noise(6), 50, 64, nan)},
		{20000, 96, activation, scaled(noise(7), 1, 1)},
	} {
		cases = append(cases, testCase{name: fmt.Sprintf("rows=%d k=%d x=%s with itself, twice", c.rows, c.k, typeName(c.x)), limit: limit, direct: true,
			build: func(f *fixture) func(device.Device) {
				h, x := f.inOut("h", tensor.F32, c.k, c.k, constant(0)), f.in("x", c.x, c.rows, c.k, c.v)
				return quantizing(func(d device.Quantize) {
					d.Gram(h, x, x)
					d.Gram(h, x, x)
				})
			}})
	}
	return cases
}

// gramsCases are those of device.Summer: sums of one list, some of one h.
func gramsCases() (cases []testCase) {
	for _, rows := range []int{0, 1, 70, 2048, 9000} {
		cases = append(cases, testCase{name: fmt.Sprintf("rows=%d", rows), limit: momentSums, direct: true,
			build: func(f *fixture) func(device.Device) {
				x, y, z := f.in("x", residual, rows, 224, noise(2)), f.in("y", activation, rows, 96, noise(3)), f.in("z", activation, rows, 200, scaled(noise(4), 1, 1))
				a, b, mixed := f.inOut("a", tensor.F32, 128, 128, constant(0)), f.inOut("b", tensor.F32, 96, 96, constant(0)), f.inOut("mixed", tensor.F32, 96, 128, noise(1))
				square, across := f.inOut("square", tensor.F32, 96, 96, constant(0)), f.inOut("across", tensor.F32, 96, 200, noise(5))
				return quantizing(func(d device.Quantize) {
					left, right := x.Columns(0, 128), x.Columns(128, 224)
					list := []device.Moment{{H: a, X: left, Y: left}, {H: b, X: right, Y: right}, {H: mixed, X: y, Y: left}, {H: square, X: y, Y: y}, {H: across, X: y, Y: z}, {H: a, X: left, Y: left}}
					if s, ok := d.(device.Summer); ok {
						s.Grams(list)
						s.Mirror([]tensor.Tensor{a, b, square})
						return
					}
					for _, m := range list {
						d.Gram(m.H, m.X, m.Y)
					}
				})
			}})
	}
	return cases
}

func differenceCases() (cases []testCase) {
	half := limit{rel: ulp, abs: 1e-6, why: "rounded to fp16"}
	for _, c := range []struct {
		name       string
		rows, cols int
		of         tensor.Type
		a, b       values
	}{
		{"nothing", 0, 64, activation, noise(1), noise(2)}, {"one", 1, 1, activation, noise(1), noise(2)}, {"activations", 33, 100, activation, noise(1), noise(2)},
		{"alike", 20, 256, activation, noise(1), noise(1)}, {"of the stream", 33, 100, residual, noise(3), noise(4)}, {"large", 3, 64, residual, scaled(noise(3), 2e4, 0), scaled(noise(4), 2e4, 0)},
		{"NaN", 3, 64, activation, withAt(noise(1), nan, 70), noise(2)},
	} {
		cases = append(cases, testCase{name: c.name, limit: half, build: func(f *fixture) func(device.Device) {
			y := f.out("y", activation, c.rows, c.cols)
			a, b := f.in("a", c.of, c.rows, c.cols, c.a), f.in("b", c.of, c.rows, c.cols, c.b)
			return quantizing(func(d device.Quantize) { d.Difference(y, a, b) })
		}})
	}
	return cases
}

func takeCases() (cases []testCase) {
	const rows, cols = 96, 130
	for _, c := range []struct {
		name       string
		rows, cols []int32
	}{
		{"rows and columns", shuffled(1, rows), shuffled(2, cols)}, {"rows", shuffled(1, rows), nil}, {"columns", nil, shuffled(2, cols)}, {"all in order", nil, nil},
		{"some, repeated", []int32{95, 0, 0, 7}, []int32{129, 5, 5}}, {"none", []int32{}, nil},
	} {
		cases = append(cases, testCase{name: c.name, limit: exact, build: func(f *fixture) func(device.Device) {
			r, s := f.list("rows", c.rows), f.list("cols", c.cols)
			dst := f.out("dst", tensor.F32, lengthOr(c.rows, rows), lengthOr(c.cols, cols))
			src := f.in("src", tensor.F32, rows, cols, noise(3))
			return quantizing(func(d device.Quantize) { d.Take(dst, src, r, s) })
		}})
	}
	return cases
}

// list allocates indices, or returns an absent tensor.
func (f *fixture) list(name string, v []int32) tensor.Tensor {
	if v == nil {
		return tensor.Tensor{}
	}
	return f.ints(name, 1, len(v), v)
}

func lengthOr(v []int32, n int) int {
	if v == nil {
		return n
	}
	return len(v)
}

func takeTCases() (cases []testCase) {
	for _, t := range []tensor.Type{tensor.F32, tensor.F16, tensor.BF16} {
		for _, s := range []struct{ out, in, padded int }{{1, 32, 32}, {37, 50, 64}, {128, 96, 128}, {200, 33, 224}} {
			for _, order := range [][]int32{nil, shuffled(1, s.in), shuffled(1, s.in)[:s.in/3], {int32(s.in - 1)}} {
				name := fmt.Sprintf("%v %dx%d to %d, %d in order", t, s.out, s.in, s.padded, len(order))
				cases = append(cases, testCase{name: name, limit: exact, build: func(f *fixture) func(device.Device) {
					dst := f.out("dst", tensor.F32, lengthOr(order, s.in), s.padded)
					src, cols := f.in("src", t, s.out, s.in, noise(2)), f.list("cols", order)
					return quantizing(func(d device.Quantize) { d.TakeT(dst, src, cols) })
				}})
			}
		}
	}
	return cases
}

func diagonalCases() (cases []testCase) {
	for _, k := range []int{1, 32, 33, 1000} {
		cases = append(cases, testCase{name: fmt.Sprint(k), limit: exact, build: func(f *fixture) func(device.Device) {
			dst, m := f.out("dst", tensor.F32, 1, k), f.in("m", tensor.F32, k, k, noise(1))
			return quantizing(func(d device.Quantize) { d.Diagonal(dst, m) })
		}})
	}
	return cases
}

func addDiagonalCases() (cases []testCase) {
	for _, k := range []int{1, 32, 33, 1000} {
		cases = append(cases, testCase{name: fmt.Sprint(k), limit: exact, build: func(f *fixture) func(device.Device) {
			m := f.inOut("m", tensor.F32, k, k, noise(1))
			return quantizing(func(d device.Quantize) { d.AddDiagonal(m, 0.37) })
		}})
	}
	return cases
}

// moments are those of some patterns: a positive definite matrix whose smallest
// eigenvalue is at least least.
func moments(k int, least float32) []float32 {
	v, h, n := noise(11), make([]float32, k*k), 2*k
	x := make([]float64, k*n) // a row for every input
	for i := range x {
		x[i] = float64(v(i)) + float64(v(i%n*7919))
	}
	for i := range k {
		for j := range i + 1 {
			sum := 0.0
			for r, a := range x[i*n : (i+1)*n] {
				sum += a * x[j*n+r]
			}
			h[i*k+j] = float32(sum / float64(n))
			h[j*k+i] = h[i*k+j]
		}
		h[i*k+i] += least
	}
	return h
}

func inverseFactorCases() (cases []testCase) {
	limit := limit{rms: 1e-3, rel: 1e-3, nmse: 1e-7, why: "a factorization and an inverse, at a condition of some hundreds"}
	for _, k := range []int{1, 32, 33, 128, 200, 300, 544} {
		for _, damp := range []float32{0, 0.5} {
			cases = append(cases, inverseFactorCase(fmt.Sprintf("k=%d damp=%v", k, damp), k, damp, limit, func([]float32) {}))
		}
	}
	const k = 160
	for _, c := range []struct {
		name  string
		spoil func(h []float32)
	}{
		{"negative first element", func(h []float32) { h[0] = -1 }}, {"negative last element", func(h []float32) { h[k*k-1] = -1 }}, {"zeros", func(h []float32) { clear(h) }},
		{"indefinite", func(h []float32) { h[3*k+140], h[140*k+3] = 1e4, 1e4 }}, {"NaN", func(h []float32) { h[70*k+70] = nan }}, {"infinity", func(h []float32) { h[70*k+70] = infinity }},
	} {
		spoiled := limit
		spoiled.any = true
		cases = append(cases, inverseFactorCase(c.name, k, 0, spoiled, c.spoil))
	}
	return cases
}

// inverseFactorCase begins with a u that is not zero anywhere.
func inverseFactorCase(name string, k int, damp float32, l limit, spoil func(h []float32)) testCase {
	return testCase{name: name, limit: exact, direct: true, build: func(f *fixture) func(device.Device) {
		m := moments(k, 0.05)
		spoil(m)
		u := f.out("u", tensor.F32, k, k)
		f.within(l)
		h := f.in("h", tensor.F32, k, k, list(m...))
		ok := f.intsOut("ok", 1, 1, []int32{-7})
		return quantizing(func(d device.Quantize) { d.InverseFactor(u, h, damp, ok) })
	}}
}

// triangle is an upper triangular matrix that neither grows nor shrinks much
// what is multiplied by it.
func triangle(k int) values {
	v, small := noise(12), float32(1/math.Sqrt(float64(k)))
	return func(i int) float32 {
		switch r, c := i/k, i%k; {
		case c < r:
			return 0
		case c == r:
			return 0.75 + 0.25*v(i)
		}
		return small * v(i)
	}
}

func solveCases() (cases []testCase) {
	limit := limit{rms: 5e-5, rel: 1e-5, nmse: 1e-10, why: "two products in float32, in another order"}
	for _, c := range []struct{ k, n int }{{1, 32}, {32, 32}, {130, 320}, {600, 32}, {1100, 64}} {
		cases = append(cases, testCase{name: fmt.Sprintf("k=%d n=%d", c.k, c.n), limit: limit, direct: true, build: func(f *fixture) func(device.Device) {
			b, u := f.inOut("b", tensor.F32, c.k, c.n, noise(1)), f.in("u", tensor.F32, c.k, c.k, triangle(c.k))
			return quantizing(func(d device.Quantize) { d.Solve(b, u) })
		}})
	}
	return cases
}

func subtractProductCases() (cases []testCase) {
	limit := limit{rms: 2e-5, rel: 1e-5, nmse: 1e-10, why: "sums in float32, in another order"}
	for _, c := range []struct{ r, m, n int }{{1, 1, 1}, {32, 64, 70}, {300, 300, 33}, {70, 90, 5}, {0, 8, 8}, {8, 0, 8}, {512, 256, 320}} {
		cases = append(cases, testCase{name: fmt.Sprintf("r=%d m=%d n=%d", c.r, c.m, c.n), limit: limit, direct: true, build: func(f *fixture) func(device.Device) {
			y := f.inOut("y", tensor.F32, c.m, c.n, noise(1))
			a, x := f.in("a", tensor.F32, c.r, c.m, noise(2)), f.in("x", tensor.F32, c.r, c.n, noise(3))
			return quantizing(func(d device.Quantize) { d.SubtractProduct(y, a, x) })
		}})
	}
	return cases
}

func likelihoodCases() (cases []testCase) {
	for _, c := range []struct {
		name       string
		rows, cols int
		v          values
	}{
		{"none", 0, 10, noise(1)}, {"one column", 3, 1, noise(1)}, {"few", 70, 9, scaled(noise(2), 3, 0)}, {"vocabulary", 3, 128256, scaled(noise(4), 8, 0)},
		{"odd vocabulary", 5, 50257, scaled(noise(5), 2, -100)}, {"impossible ones", 3, 100, withAt(noise(11), -infinity, 0, 5, 99, 150)},
		{"NaN", 3, 100, withAt(noise(11), nan, 130)}, {"infinity", 3, 100, withAt(noise(11), infinity, 130)},
	} {
		cases = append(cases, testCase{name: c.name, limit: limit{abs: 1e-6, rel: 1e-6, why: "exponentials in float32"}, build: func(f *fixture) func(device.Device) {
			logs, x := f.out("logs", tensor.F64, 1, c.rows), f.in("x", residual, c.rows, c.cols, c.v)
			ids := make([]int32, c.rows)
			for i := range ids {
				ids[i] = int32(i*7919%(c.cols+1)) - 1
			}
			of := f.ints("ids", 1, c.rows, ids)
			return quantizing(func(d device.Quantize) { d.LogLikelihood(logs, x, of) })
		}})
	}
	return cases
}

func dotCases() (cases []testCase) {
	for _, c := range []struct {
		name       string
		rows, cols int
		x, y       values
		limit      limit
	}{
		{"none", 0, 64, noise(1), noise(2), exact},
		{"one", 1, 1, noise(1), noise(2), limit{rel: 1e-15, why: "one product"}},
		{"positive", 50, 333, scaled(noise(1), 1, 1.5), scaled(noise(2), 1, 1.5), limit{rel: 1e-12, why: "sums in float64, in another order"}},
		{"large", 300, 4096, scaled(noise(1), 1, 1.5), scaled(noise(2), 1, 1.5), limit{rel: 1e-12, why: "sums in float64, in another order"}},
		{"of both signs", 300, 1001, noise(1), noise(2), limit{abs: 1e-9, why: "sums in float64, in another order"}},
		{"beyond float32", 2, 40, constant(1e30), constant(3e30), limit{rel: 1e-12, why: "products in float64"}},
		{"NaN", 70, 70, withAt(noise(1), nan, 4899), noise(2), exact},
		{"infinity", 70, 70, withAt(noise(1), infinity, 5), constant(1), exact},
	} {
		cases = append(cases, testCase{name: c.name, limit: c.limit, direct: true, build: func(f *fixture) func(device.Device) {
			sum := f.out("sum", tensor.F64, 1, 1)
			x, y := f.in("x", residual, c.rows, c.cols, c.x), f.in("y", residual, c.rows, c.cols, c.y)
			return quantizing(func(d device.Quantize) { d.Dot(sum, x, y) })
		}})
	}
	for _, c := range []struct{ rows, cols, runs int }{{64, 1000, 8}, {65, 333, 9}, {5, 40, 4}, {2048, 96, 256}, {0, 8, 3}} {
		cases = append(cases, testCase{name: fmt.Sprintf("%d rows in %d runs", c.rows, c.runs), limit: limit{abs: 1e-10, why: "sums in float64, in another order"}, direct: true, build: func(f *fixture) func(device.Device) {
			sum := f.out("sum", tensor.F64, 1, c.runs)
			x, y := f.in("x", residual, c.rows, c.cols, noise(4)), f.in("y", residual, c.rows, c.cols, noise(5))
			return quantizing(func(d device.Quantize) { d.Dot(sum, x, y) })
		}})
	}
	cases = append(cases, testCase{name: "with itself", limit: limit{rel: 1e-12, why: "sums in float64, in another order"}, direct: true, build: func(f *fixture) func(device.Device) {
		sum, x := f.out("sum", tensor.F64, 1, 1), f.in("x", residual, 33, 777, noise(3))
		return quantizing(func(d device.Quantize) { d.Dot(sum, x, x) })
	}})
	return cases
}

func distancesCases() (cases []testCase) {
	for _, c := range []struct {
		name             string
		rows, cols, runs int
		x                values
	}{
		{"none", 0, 8, 3, noise(4)}, {"one", 1, 1, 1, noise(4)}, {"runs", 65, 333, 9, noise(4)}, {"fours", 64, 1000, 8, noise(4)}, {"rows", 9, 4096, 9, noise(4)},
		{"alike", 40, 96, 4, noise(5)}, {"NaN", 70, 70, 7, withAt(noise(1), nan, 4899)},
	} {
		cases = append(cases, testCase{name: c.name, limit: limit{rel: 1e-12, why: "sums in float64, in another order"}, direct: true, build: func(f *fixture) func(device.Device) {
			diffs, squares := f.out("diffs", tensor.F64, 1, c.runs), f.out("squares", tensor.F64, 1, c.runs)
			x, y := f.in("x", residual, c.rows, c.cols, c.x), f.in("y", residual, c.rows, c.cols, noise(5))
			return quantizing(func(d device.Quantize) { d.Distances(diffs, squares, x, y) })
		}})
	}
	return cases
}
