package prequanttest

import (
	"math"

	"exl2/internal/half"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// FP4 says which tensors a weight of e2m1 numbers has, and how its groups are scaled.
type FP4 struct {
	Codes, Scales, Factor string // ends of names; no Factor where scales are powers of two
	Inverse               bool   // the factor is what is divided by
	Group                 int    // inputs that share a scale
}

// The forms that programs write.
var (
	NVFP4         = FP4{".weight_packed", ".weight_scale", ".weight_global_scale", true, 16}
	OptimizerFP4  = FP4{".weight", ".weight_scale", ".weight_scale_2", false, 16}
	PackedMXFP4   = FP4{".weight_packed", ".weight_scale", "", false, 32}
	largestE2M1   = 6.0
	largestE4M3   = 448.0
	smallestScale = 1e-30
)

// Encode returns a weight, [out, in], as tensors, and what it decodes to.
func (f FP4) Encode(module string, w []float32, out, in int) ([]safetensors.Tensor, []half.BF16) {
	most := 0.0
	for _, v := range w {
		most = max(most, math.Abs(float64(v)))
	}
	one := float32(most / largestE2M1 / largestE4M3)
	if f.Inverse {
		one = 1 / one
	}
	codes, scales, decoded := make([]byte, len(w)/2), make([]byte, len(w)/f.Group), make([]half.BF16, len(w))
	for g := range scales {
		group := w[g*f.Group : (g+1)*f.Group]
		var scale float32
		scales[g], scale = f.scale(group, one)
		for i, v := range group {
			at := g*f.Group + i
			code := nearest(float64(v)/float64(scale), 16, func(c uint8) float64 { return E2M1[c] })
			codes[at/2] |= code << (at % 2 * 4)
			decoded[at] = half.ToBF16(float32(E2M1[code]) * scale)
		}
	}
	kind := "F8_E4M3"
	if f.Factor == "" {
		kind = "U8"
	}
	list := []safetensors.Tensor{
		named(module+f.Codes, "U8", []int{out, in / 2}, codes),
		named(module+f.Scales, kind, []int{out, in / f.Group}, scales),
	}
	if f.Factor != "" {
		list = append(list, named(module+f.Factor, "F32", []int{1}, tensor.BytesOf([]float32{one})))
	}
	return list, decoded
}

// scale returns the byte that scales a group, and what its numbers are multiplied by.
func (f FP4) scale(group []float32, one float32) (uint8, float32) {
	most := smallestScale
	for _, v := range group {
		most = max(most, math.Abs(float64(v)))
	}
	if f.Factor == "" {
		exponent := math.Floor(math.Log2(most)) - 2
		return uint8(exponent + 127), float32(math.Pow(2, exponent))
	}
	want := most / largestE2M1 / float64(one)
	if f.Inverse {
		want = most / largestE2M1 * float64(one)
	}
	b := nearest(want, 127, E4M3)
	if b == 0 {
		b = 1
	}
	if f.Inverse {
		return b, float32(E4M3(b)) / one
	}
	return b, float32(E4M3(b)) * one
}

// MXFP8 returns a weight, [out, in], in float8_e4m3fn with a power of two for each 32 inputs.
func MXFP8(module string, w []float32, out, in int) ([]safetensors.Tensor, []half.BF16) {
	data, scales, decoded := make([]byte, len(w)), make([]byte, len(w)/32), make([]half.BF16, len(w))
	for g := range scales {
		most := smallestScale
		for _, v := range w[g*32 : (g+1)*32] {
			most = max(most, math.Abs(float64(v)))
		}
		exponent := math.Floor(math.Log2(most)) - 8
		scales[g] = uint8(exponent + 127)
		for i := g * 32; i < (g+1)*32; i++ {
			data[i] = nearest(float64(w[i])/math.Pow(2, exponent), 256, E4M3)
			decoded[i] = half.ToBF16(float32(E4M3(data[i]) * math.Pow(2, exponent)))
		}
	}
	return []safetensors.Tensor{
		named(module+".weight", "F8_E4M3", []int{out, in}, data),
		named(module+".weight_scale", "U8", []int{out, in / 32}, scales),
	}, decoded
}
