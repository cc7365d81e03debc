package devtest

import (
	"fmt"
	"math"
	"strings"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// productLimit is that of sums over k products: summed in float32 in another
// order, with single products or short sums perhaps rounded to fp16.
var productLimit = limit{rms: 2e-3, rel: ulp, nmse: 1e-6, why: "sums in another order; one rounding to fp16"}

func matMulCases() (cases []testCase) {
	types := []tensor.Type{tensor.F16, tensor.BF16, tensor.F32}
	for _, s := range []struct{ rows, k, n int }{
		{0, 64, 64}, {1, 1, 1}, {1, 64, 64}, {1, 4096, 256}, {1, 100, 33}, {1, 7, 1000}, {2, 256, 77}, {3, 333, 129}, {4, 64, 64}, {5, 1000, 100},
		{7, 72, 40}, {8, 128, 128}, {9, 2048, 65}, {15, 31, 17}, {16, 512, 256}, {17, 4096, 24}, {33, 100, 200}, {64, 128, 96}, {65, 129, 67},
		{128, 256, 384}, {200, 96, 136}, {257, 520, 264},
	} {
		for i, w := range types {
			for _, y := range []tensor.Type{activation, residual} {
				bias := (s.rows+s.n+i)%2 == 1
				cases = append(cases, matMulCase(s.rows, s.k, s.n, w, y, bias, noise(1)))
			}
		}
	}
	return append(cases,
		matMulCase(3, 200, 100, tensor.F16, activation, false, constant(0)),
		matMulCase(3, 200, 100, tensor.F16, activation, true, withRow(noise(1), 1, 200, nan)),
		matMulCase(20, 256, 128, tensor.F16, activation, false, withRow(noise(1), 7, 256, nan)),
		matMulCase(2, 96, 64, tensor.F16, residual, false, scaled(noise(1), half.MaxF16, 0)),
		matMulCase(40, 96, 64, tensor.BF16, residual, false, scaled(noise(1), half.MaxF16, 0)),
		matMulCase(5, 64, 64, tensor.F16, residual, false, scaled(noise(1), 0x1p-14, 0)))
}

func matMulCase(rows, k, n int, wType, yType tensor.Type, bias bool, v values) testCase {
	name := fmt.Sprintf("rows=%d k=%d n=%d w=%v y=%s bias=%v", rows, k, n, wType, typeName(yType), bias)
	return testCase{name: name, limit: productLimit, build: func(f *fixture) func(device.Device) {
		y := f.out("y", yType, rows, n)
		x := f.in("x", activation, rows, k, v)
		w := f.in("w", wType, n, k, noise(2))
		b := f.bias(n, bias)
		return func(d device.Device) { d.MatMul(y, x, w, b) }
	}}
}

// bias allocates a bias or returns an absent one.
func (f *fixture) bias(n int, has bool) tensor.Tensor {
	if !has {
		return tensor.Tensor{}
	}
	return f.in("bias", tensor.F32, 1, n, scaled(noise(9), 3, 0))
}

// quantized returns an EXL2 matrix of codes without meaning.
func quantized(in, out int, recipe string) *exl2.Matrix {
	return quantizedParts(in, exl2.Pad(out), recipe).Pack()
}

// quantizedParts returns codes without meaning, whose groups are cut by the
// recipe.
func quantizedParts(in, out int, recipe string) *exl2.Quantized {
	q := &exl2.Quantized{In: in, Out: out, Groups: exl2.MustRecipe(recipe).Groups(in), Perm: shuffled(4, in)}
	q.Codes = make([]uint8, q.In*q.Out)
	for g, group := range q.Groups {
		for i := group.Row * q.Out; i < (group.Row+group.Rows)*q.Out; i++ {
			q.Codes[i] = uint8(mix(5, i)>>7) & uint8(1<<group.Bits-1)
		}
		for c := range q.Out {
			q.Scales = append(q.Scales, uint8(mix(6, g*q.Out+c)>>9&15))
		}
		// The largest weight of a group is about one.
		largest := (0.5 + float32(g%7)/7) / float32(int(1)<<(group.Bits-1))
		q.ScaleMax = append(q.ScaleMax, half.ToF16(largest))
	}
	return q
}

// shape is an EXL2 matrix and a number of rows to multiply by it.
type shape struct {
	in, out int
	recipe  string
	rows    int
}

func (s shape) String() string { return fmt.Sprintf("%dx%d %s", s.in, s.out, s.recipe) }

// everyMix lists recipes: each width alone, each pair, and all of them, with
// groups of 32, 64 and 128.
func everyMix() (recipes []string) {
	widths := []int{8, 6, 5, 4, 3, 2}
	for i, a := range widths {
		for _, group := range []int{32, 64, 128} {
			recipes = append(recipes, fmt.Sprintf("1:%db_%dg", a, group))
		}
		for j, b := range widths[i+1:] {
			groups := []int{32, 64, 128}
			recipes = append(recipes, fmt.Sprintf("0.3:%db_%dg/0.7:%db_%dg", a, groups[(i+j)%3], b, groups[(i+2*j+1)%3]))
		}
	}
	return append(recipes, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", "0.05:8b_128g/0.1:4b_128g/0.85:3b_128g")
}

// qShapes lists matrices that differ in one respect at a time.
func qShapes() (shapes []shape) {
	for i, r := range everyMix() {
		shapes = append(shapes, shape{480, 96, r, []int{1, 3, 20, 70}[i%4]}) // 480 leaves short last groups
	}
	for _, in := range []int{32, 64, 96, 160, 352, 1024, 2048, 4096, 5120, 11008} {
		shapes = append(shapes, shape{in, 64, "1:4b_128g", 1}, shape{in, 64, "0.25:5b_128g/0.75:3b_32g", 17})
	}
	for _, recipe := range []string{"1:8b_128g", "0.5:8b_32g/0.5:3b_32g"} { // so long and wide that a GPU has less room for a row
		shapes = append(shapes, shape{28672, 64, recipe, 1}, shape{28672, 64, recipe, 8}, shape{14336, 64, recipe, 16})
	}
	for _, out := range []int{1, 8, 31, 32, 33, 100, 128, 200, 1000} {
		shapes = append(shapes, shape{256, out, "0.1:6b_128g/0.9:4b_128g", 1}, shape{256, out, "0.1:6b_128g/0.9:4b_128g", 30})
	}
	for _, rows := range []int{0, 1, 2, 3, 4, 5, 8, 9, 16, 33, 64, 65, 200} {
		shapes = append(shapes, shape{1024, 160, "0.1:5b_64g/0.4:4b_128g/0.5:2b_64g", rows})
	}
	return shapes
}

// decodeCases are the matrices of qShapes, each once.
func decodeCases() (cases []testCase) {
	known := map[string]bool{}
	for _, s := range qShapes() {
		if known[s.String()] {
			continue
		}
		known[s.String()] = true
		cases = append(cases, testCase{name: s.String(), limit: limit{bits: true, why: "decoding is exact"}, build: func(f *fixture) func(device.Device) {
			dst := f.out("dst", tensor.F16, s.out, s.in)
			w := f.matrix(quantized(s.in, s.out, s.recipe), s.out)
			return func(d device.Device) { d.Decode(dst, w) }
		}})
	}
	return append(cases, decodeChainCase())
}

// decodeChainCase is small matrices of which one is decoded right behind another, as of an MLP: what is worked out
// for one may not be taken for the next.
func decodeChainCase() testCase {
	return testCase{name: "one behind the other", limit: limit{bits: true, why: "decoding is exact"}, build: func(f *fixture) func(device.Device) {
		var dst []tensor.Tensor
		var list []device.Matrix
		for i, in := range []int{128, 352, 128, 1024, 64, 4096, 512} {
			const out = 96
			dst = append(dst, f.out(fmt.Sprint("dst ", i), tensor.F16, out, in))
			list = append(list, f.matrix(quantized(in, out, "0.3:5b_64g/0.7:3b_32g"), out))
		}
		return func(d device.Device) {
			for i, w := range list {
				d.Decode(dst[i], w)
			}
		}
	}}
}

func qMatMulCases() (cases []testCase) {
	for i, s := range qShapes() {
		cases = append(cases, qMatMulCase(s, []tensor.Type{activation, residual}[i%2], i%3 == 1, noise(1)))
	}
	s := shape{512, 96, "0.3:5b_128g/0.7:3b_64g", 3}
	many := shape{512, 96, "0.3:5b_128g/0.7:3b_64g", 40}
	for _, width := range []int{2, 3, 4, 5, 6, 8} {
		for i, group := range []int{32, 64, 128} {
			few := shape{480, 96, fmt.Sprintf("1:%db_%dg", width, group), []int{5, 8, 16}[(width+i)%3]}
			cases = append(cases, closeCase(few, "of one sign", scaled(noise(1), 0.25, 1)), closeCase(few, "large and small", spread(1)))
		}
	}
	for _, rows := range []int{1, 2, 4, 8} {
		cases = append(cases, largeCase(shape{480, 96, "0.3:8b_128g/0.7:6b_64g", rows}))
	}
	return append(cases,
		qMatMulCase(s, activation, false, constant(0)),
		qMatMulCase(s, activation, false, withRow(noise(1), 1, s.in, nan)),
		qMatMulCase(many, activation, false, withRow(noise(1), 20, s.in, nan)),
		qMatMulCase(s, residual, false, scaled(noise(1), 1000, 0)),
		qMatMulCase(s, activation, true, scaled(noise(1), 1e-3, 0)),
		qMatMulCase(many, residual, true, scaled(noise(1), 1000, 0)))
}

// closeLimit is that of sums in which nothing is rounded but weights, to fp16: 2^-12 of them, or 2e-8 of all their squares.
var closeLimit = limit{rms: 2e-3, nmse: 2e-7, why: "weights are not rounded"}

// closeCase is of x whose products cancel if codes are multiplied as they are, with their zeros.
func closeCase(s shape, name string, v values) testCase {
	c := qMatMulCase(s, residual, false, v)
	c.name, c.limit = c.name+" "+name, closeLimit
	return c
}

// largeCase is of codes near their zero whose scales are large: other codes would be infinite.
func largeCase(s shape) testCase {
	return testCase{name: fmt.Sprintf("%v rows=%d large scales", s, s.rows), limit: productLimit, build: func(f *fixture) func(device.Device) {
		q := quantizedParts(s.in, exl2.Pad(s.out), s.recipe)
		for g, group := range q.Groups {
			for i := group.Row * q.Out; i < (group.Row+group.Rows)*q.Out; i++ {
				q.Codes[i] = uint8(1<<(group.Bits-1) + int(mix(5, i)>>7%8) - 4)
			}
			q.ScaleMax[g] = half.ToF16(8000)
		}
		y := f.out("y", residual, s.rows, s.out)
		x := f.in("x", activation, s.rows, s.in, scaled(noise(1), 0.1, 0))
		w := f.matrix(q.Pack(), s.out)
		return func(d device.Device) { d.QMatMul(y, x, w, tensor.Tensor{}) }
	}}
}

// spread is noise of 24 binary orders of magnitude, subnormal numbers at the end.
func spread(seed int) values {
	return func(i int) float32 {
		return noise(seed)(i) * float32(math.Ldexp(1, 4-int(mix(seed+1, i)%24)))
	}
}

func qMatMulCase(s shape, yType tensor.Type, bias bool, v values) testCase {
	name := strings.Join([]string{s.String(), fmt.Sprintf("rows=%d y=%s bias=%v", s.rows, typeName(yType), bias)}, " ")
	return testCase{name: name, limit: productLimit, build: func(f *fixture) func(device.Device) {
		y := f.out("y", yType, s.rows, s.out)
		x := f.in("x", activation, s.rows, s.in, v)
		w := f.matrix(quantized(s.in, s.out, s.recipe), s.out)
		b := f.bias(s.out, bias)
		return func(d device.Device) { d.QMatMul(y, x, w, b) }
	}}
}
