package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

func gatherCases() (cases []testCase) {
	for i, c := range []struct{ rows, from, cols int }{{0, 3, 64}, {1, 1, 1}, {8, 1, 2048}, {100, 37, 129}, {513, 64, 768}, {40, 16, 1}} {
		cases = append(cases, testCase{name: fmt.Sprintf("rows=%d of %d cols=%d", c.rows, c.from, c.cols), limit: exact,
			build: func(f *fixture) func(device.Device) {
				t := []tensor.Type{activation, residual}[i%2]
				y, x := f.out("y", t, c.rows, c.cols), f.in("x", t, c.from, c.cols, noise(1))
				rows := f.ints("rows", 1, c.rows, some(2, c.rows, c.from))
				return func(d device.Device) { d.Gather(y, x, rows) }
			}})
	}
	return cases
}

// some returns n numbers below limit.
func some(seed, n, limit int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(mix(seed, i) % uint64(limit))
	}
	return list
}

func combineCases() (cases []testCase) {
	limit := limit{rel: 0x1p-20, abs: 0x1p-20, why: "products may be rounded or not before each sum"}
	for i, c := range []struct{ rows, of, from, cols int }{{0, 2, 3, 64}, {1, 1, 1, 1}, {1, 8, 8, 2048}, {37, 2, 74, 129}, {65, 8, 520, 768}, {3, 9, 27, 100}, {9, 1, 9, 1}, {40, 1, 40, 1}} {
		cases = append(cases, testCase{name: fmt.Sprintf("rows=%d of %d cols=%d", c.rows, c.of, c.cols), limit: limit,
			build: func(f *fixture) func(device.Device) {
				y, x := f.inOut("y", residual, c.rows, c.cols, noise(1)), f.in("x", []tensor.Type{activation, residual}[i%2], c.from, c.cols, noise(2))
				places := f.ints("places", c.rows, c.of, some(3, c.rows*c.of, c.from))
				weights := f.in("weights", tensor.F32, c.rows, c.of, noise(4))
				if i%3 == 2 {
					places, weights = places.Columns(0, c.of-1), tensor.Tensor{}
				}
				return func(d device.Device) { d.Combine(y, x, places, weights, 0.5) }
			}})
	}
	return cases
}

func combineBackCases() (cases []testCase) {
	limit := limit{rel: 0x1p-20, abs: 0x1p-30, why: "products may be rounded or not before sums"}
	for _, c := range []struct{ rows, of, from, cols int }{{0, 2, 3, 64}, {1, 1, 1, 1}, {1, 8, 8, 2048}, {37, 2, 80, 129}, {65, 8, 520, 768}} {
		cases = append(cases, backwards(fmt.Sprintf("rows=%d of %d cols=%d", c.rows, c.of, c.cols), limit, func(f *fixture) func(device.Backward) {
			dx, dy := f.inOut("dx", residual, c.from, c.cols, small(1)), f.in("dy", residual, c.rows, c.cols, small(2))
			places := f.ints("places", c.rows, c.of, shuffled(3, c.from)[:c.rows*c.of])
			weights := f.in("weights", tensor.F32, c.rows, c.of, noise(4))
			return func(d device.Backward) { d.CombineBack(dx, dy, places, weights, 0.5) }
		}))
	}
	return cases
}
