package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

func actMulCases() (cases []testCase) {
	limit := limit{abs: 0x1p-23, rel: ulp, why: "a function in float32, one rounding to fp16, whose subnormals are 2⁻²⁴ apart"}
	for act, actName := range []string{"silu", "gelu", "gelu-tanh", "relu", "sigmoid", "softplus"} {
		for _, c := range []struct {
			rows, cols int
			gate, up   values
		}{
			{0, 100, noise(1), noise(2)},
			{1, 1, noise(1), noise(2)},
			{1, 11008, scaled(noise(3), 4, 0), noise(4)},
			{3, 37, scaled(noise(5), 8, 0), noise(6)},
			{65, 1000, scaled(noise(7), 20, 0), noise(8)},
			{3, 1003, hostile(9), noise(10)},
			{3, 256, noise(11), hostile(12)},
			{4, 64, withRow(noise(13), 1, 64, nan), noise(14)},
		} {
			build := func(f *fixture, y, gate tensor.Tensor) func(device.Device) {
				up := f.in("up", activation, c.rows, c.cols, c.up)
				return func(d device.Device) { d.ActMul(y, gate, up, device.Act(act)) }
			}
			name := fmt.Sprintf("%s rows=%d cols=%d", actName, c.rows, c.cols)
			cases = append(cases,
				testCase{name: name, limit: limit, build: func(f *fixture) func(device.Device) {
					y := f.out("y", activation, c.rows, c.cols)
					return build(f, y, f.in("gate", activation, c.rows, c.cols, c.gate))
				}},
				testCase{name: name + " in place", limit: limit, build: func(f *fixture) func(device.Device) {
					gate := f.inOut("gate", activation, c.rows, c.cols, c.gate)
					return build(f, gate, gate)
				}})
		}
	}
	return cases
}

func addScaledCases() (cases []testCase) {
	limit := limit{rel: 0x1p-22, abs: 0x1p-22, why: "the product may be rounded or not before the sum"}
	for _, c := range []struct {
		rows, cols int
		x          tensor.Type
		scale      float32
		v          values
	}{
		{0, 100, activation, 1, noise(1)},
		{1, 1, activation, 1, noise(1)},
		{1, 4096, activation, 1, noise(2)},
		{1, 4096, residual, 1, noise(3)},
		{7, 1001, activation, 0.22, noise(4)},
		{7, 1001, residual, -0.22, noise(5)},
		{200, 5120, activation, 1, noise(6)},
		{300, 1, residual, 0.4, noise(9)}, // with gaps as a diagonal has them
		{5, 100, activation, 1, hostile(7)},
		{3, 100, activation, 1, withRow(noise(8), 1, 100, nan)},
	} {
		cases = append(cases, testCase{name: fmt.Sprintf("rows=%d cols=%d x=%s scale=%v", c.rows, c.cols, typeName(c.x), c.scale), limit: limit,
			build: func(f *fixture) func(device.Device) {
				y := f.inOut("y", residual, c.rows, c.cols, scaled(noise(10), 2, 0))
				x := f.in("x", c.x, c.rows, c.cols, c.v)
				return func(d device.Device) { d.AddScaled(y, x, c.scale) }
			}})
	}
	return cases
}

func capCases() (cases []testCase) {
	for _, c := range []struct {
		rows, cols     int
		scale, softcap float32
		v              values
	}{
		{0, 100, 1, 30, noise(1)},
		{1, 1, 1, 30, noise(1)},
		{1, 32000, 1, 30, scaled(noise(2), 100, 0)},
		{3, 1001, 0.0625, 0, scaled(noise(3), 100, 0)},
		{3, 1001, 0.0625, 50, scaled(noise(4), 1e4, 0)},
		{2, 100, 1, 30, scaled(noise(5), 1e-3, 0)},
		{2, 64, 1, 30, list(0, infinity, -infinity, nan, 1e30, -1e30, 1e-30)},
	} {
		limit := limit{rel: 1e-6, abs: 1e-9, why: "tanh in float32 is good to a few units in the last place"}
		cases = append(cases, testCase{name: fmt.Sprintf("rows=%d cols=%d scale=%v softcap=%v", c.rows, c.cols, c.scale, c.softcap), limit: limit,
			build: func(f *fixture) func(device.Device) {
				x := f.inOut("x", residual, c.rows, c.cols, c.v)
				return func(d device.Device) { d.Cap(x, c.scale, c.softcap) }
			}})
	}
	return cases
}

func advanceCases() (cases []testCase) {
	for _, n := range []int{0, 1, 3, 128, 1000} {
		cases = append(cases, testCase{name: fmt.Sprintf("n=%d", n), limit: exact, build: func(f *fixture) func(device.Device) {
			pos := f.intsOut("pos", 1, n, shuffled(1, n))
			return func(d device.Device) { d.Advance(pos) }
		}})
	}
	return cases
}

// everyHalf goes through all 65,536 values of fp16.
func everyHalf(i int) float32 { return half.F16(i).Float32() }

// ties are halfway between neighbouring fp16 numbers, or next to halfway.
func ties(i int) float32 {
	lo := half.F16(mix(1, i) % 0x7bff)
	x := (lo.Float32() + (lo + 1).Float32()) / 2
	return []float32{x, -x, x * (1 + 0x1p-22), x * (1 - 0x1p-22)}[i%4]
}

func copyCases() (cases []testCase) {
	types := []tensor.Type{tensor.F32, tensor.F16, tensor.BF16}
	for _, from := range types {
		for _, to := range types {
			for _, c := range []struct {
				name       string
				rows, cols int
				v          values
			}{
				{"none", 0, 8, noise(1)}, {"one", 1, 1, noise(1)}, {"odd", 3, 1001, noise(2)}, {"large", 33, 4096, noise(3)},
				{"every half", 256, 256, everyHalf}, {"ties", 16, 1024, ties}, {"over the top", 1, 9, list(65519, 65520, -65520, 1e30, 3.4e38, -3.4e38)},
			} {
				cases = append(cases, testCase{name: fmt.Sprintf("%v to %v, %s", from, to, c.name), limit: exact, build: func(f *fixture) func(device.Device) {
					dst := f.out("dst", to, c.rows, c.cols)
					src := f.in("src", from, c.rows, c.cols, c.v)
					return func(d device.Device) { d.Copy(dst, src) }
				}})
			}
		}
	}
	for _, from := range []tensor.Type{activation, residual} {
		for _, to := range []tensor.Type{activation, residual} {
			cases = append(cases, testCase{name: fmt.Sprintf("%s to %s between columns", typeName(from), typeName(to)), limit: exact, gap: gap, build: func(f *fixture) func(device.Device) {
				dst, src := f.out("dst", to, 7, 333), f.in("src", from, 7, 333, noise(5))
				return func(d device.Device) { d.Copy(dst, src) }
			}})
		}
	}
	return append(cases, testCase{name: "to another shape", limit: exact, build: func(f *fixture) func(device.Device) {
		dst := f.out("dst", tensor.F16, 10, 6)
		src := f.in("src", tensor.F32, 4, 15, noise(4))
		return func(d device.Device) { d.Copy(dst, src) }
	}})
}
