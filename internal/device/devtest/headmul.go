package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// headMulCases are products of heads, as latent attention has them.
func headMulCases() (cases []testCase) {
	for _, c := range []struct {
		rows, out int
		h         device.HeadMul
	}{
		{0, 512, device.HeadMul{Heads: 2, In: 128, Beside: 64, Step: 512}},
		{1, 512, device.HeadMul{Heads: 16, In: 128, Beside: 64, Step: 512}},
		{1, 128, device.HeadMul{Heads: 16, In: 512, First: 128, Step: 256}},
		{2, 512, device.HeadMul{Heads: 5, In: 192, Beside: 64, Step: 512}},
		{3, 256, device.HeadMul{Heads: 3, In: 64, Beside: 32, Step: 256}},
		{8, 100, device.HeadMul{Heads: 4, In: 256, First: 64, Step: 164}},
		{9, 16, device.HeadMul{Heads: 2, In: 16, Beside: 8, Step: 16}},
		{17, 128, device.HeadMul{Heads: 3, In: 512, First: 128, Step: 256}},
		{64, 33, device.HeadMul{Heads: 2, In: 1024, Step: 40}},
		{70, 128, device.HeadMul{Heads: 2, In: 128, Beside: 64, Step: 128}},
		{1, 64, device.HeadMul{Heads: 2, In: 1032, Step: 64}},
		{2, 31, device.HeadMul{Heads: 3, In: 36, Beside: 12, Step: 31}},
	} {
		for _, kind := range []tensor.Type{tensor.F16, tensor.BF16} {
			name := fmt.Sprintf("rows=%d out=%d %+v %v", c.rows, c.out, c.h, kind)
			cases = append(cases, testCase{name: name, limit: productLimit, build: func(f *fixture) func(device.Device) {
				x, y := f.in("x", activation, c.rows, c.h.Heads*(c.h.In+c.h.Beside), noise(1)), f.out("y", activation, c.rows, c.h.Heads*(c.h.Beside+c.out))
				w := f.in("w", kind, c.h.First+c.h.Heads*c.h.Step, c.h.In, scaled(noise(2), 0.1, 0))
				return func(d device.Device) { d.MatMulHeads(y, x, w, c.h) }
			}})
		}
	}
	return cases
}
