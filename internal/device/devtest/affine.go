package devtest

import (
	"fmt"

	"exl2/internal/affine"
	"exl2/internal/device"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// An affineShape is a matrix as GPTQ makes it, and a number of rows to multiply by
// it.
type affineShape struct {
	in, out, bits, group int
	ordered              bool // rows are stored in another order
	rows                 int
}

func (s affineShape) String() string {
	text := fmt.Sprintf("%dx%d %db_%dg", s.in, s.out, s.bits, s.group)
	if s.ordered {
		text += " ordered"
	}
	return text
}

// matrix returns codes without meaning.
func (s affineShape) matrix() *affine.Matrix {
	m := &affine.Matrix{In: s.in, Out: s.out, Bits: s.bits, Rows: affine.Even(s.in, s.group).Rows}
	m.Words = affine.Pack(s.in, s.out, s.bits, func(dst []uint8, r, lo int) {
		for i := range dst {
			dst[i] = uint8(mix(5, r*s.out+lo+i)>>7) & uint8(1<<s.bits-1)
		}
	})
	for i := range len(m.Rows) * s.out {
		size := (0.5 + float32(i%7)/7) / float32(int(1)<<(s.bits-1)) // the largest weight is about one
		if i%11 == 3 {
			size = -size
		}
		m.Scales = append(m.Scales, half.ToF16(size))
		m.Zeros = append(m.Zeros, uint8(mix(6, i)>>9)&uint8(1<<s.bits-1))
	}
	if s.ordered {
		m.Perm = shuffled(4, s.in)
	}
	return m
}

// affineShapes lists matrices that differ in one respect at a time.
func affineShapes() (shapes []affineShape) {
	for i, bits := range affine.Widths {
		for k, group := range []int{32, 64, 128, 480, 96} { // 480 leaves short last groups, or is all
			shapes = append(shapes, affineShape{480, 96, bits, group, k%2 == 1, []int{1, 3, 12, 20, 70}[(i+k)%5]})
		}
		for _, rows := range []int{0, 1, 2, 3, 5, 8, 9, 16, 17, 24, 32, 33, 64, 200} {
			shapes = append(shapes, affineShape{1024, 160, bits, 128, rows%2 == 1, rows})
		}
	}
	for _, in := range []int{32, 64, 96, 160, 352, 2048, 4096, 11008} {
		shapes = append(shapes, affineShape{in, 64, 4, 32, false, 1}, affineShape{in, 64, 3, 64, true, 7}, affineShape{in, 64, 8, 128, true, 17}, affineShape{in, 64, 2, 32, true, 12})
	}
	for _, out := range []int{1, 8, 31, 32, 33, 100, 128, 200, 1000} {
		shapes = append(shapes, affineShape{256, out, 4, 128, false, 1}, affineShape{256, out, 2, 64, true, 30})
	}
	return shapes
}

// affineDecodeCases are the matrices of affineShapes, each once.
func affineDecodeCases() (cases []testCase) {
	known := map[string]bool{}
	for _, s := range affineShapes() {
		if known[s.String()] {
			continue
		}
		known[s.String()] = true
		cases = append(cases, testCase{name: s.String(), limit: limit{bits: true, why: "decoding is exact"}, build: func(f *fixture) func(device.Device) {
			dst, w := f.out("dst", tensor.F16, s.out, s.in), f.affine(s.matrix())
			return func(d device.Device) { d.Decode(dst, w) }
		}})
	}
	return cases
}

func affineCases() (cases []testCase) {
	for i, s := range affineShapes() {
		cases = append(cases, affineCase(s, []tensor.Type{activation, residual}[i%2], i%3 == 1, noise(1)))
	}
	s, many := affineShape{512, 96, 4, 128, true, 3}, affineShape{512, 96, 3, 64, true, 40}
	return append(cases,
		affineCase(s, activation, false, constant(0)),
		affineCase(s, activation, false, withRow(noise(1), 1, s.in, nan)),
		affineCase(many, activation, false, withRow(noise(1), 20, s.in, nan)),
		affineCase(s, residual, false, scaled(noise(1), 1000, 0)),
		affineCase(s, residual, false, scaled(noise(1), half.MaxF16, 0)),
		affineCase(s, residual, true, scaled(noise(1), 0.1, 1)),
		affineCase(s, activation, true, scaled(noise(1), 1e-3, 0)),
		affineCase(many, residual, true, scaled(noise(1), 1000, 0)))
}

func affineCase(s affineShape, yType tensor.Type, bias bool, v values) testCase {
	name := fmt.Sprintf("%v rows=%d y=%s bias=%v", s, s.rows, typeName(yType), bias)
	return testCase{name: name, limit: productLimit, build: func(f *fixture) func(device.Device) {
		y := f.out("y", yType, s.rows, s.out)
		x := f.in("x", activation, s.rows, s.in, v)
		w := f.affine(s.matrix())
		b := f.bias(s.out, bias)
		return func(d device.Device) { d.QMatMul(y, x, w, b) }
	}}
}
