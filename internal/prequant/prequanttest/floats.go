package prequanttest

import (
	"math"

	"exl2/internal/half"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// E4M3 returns the number that a byte of float8_e4m3fn is.
func E4M3(b uint8) float64 {
	sign, exponent, fraction := 1.0, int(b>>3&15), float64(b&7)/8
	if b >= 128 {
		sign = -1
	}
	switch {
	case exponent == 15 && b&7 == 7:
		return math.NaN()
	case exponent == 0:
		return sign * fraction * math.Pow(2, -6)
	}
	return sign * (1 + fraction) * math.Pow(2, float64(exponent-7))
}

// E2M1 are the sixteen numbers of MXFP4.
var E2M1 = []float64{0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6}

// nearest returns the code in 0 to n-1 whose number is nearest to x.
func nearest(x float64, n int, number func(uint8) float64) (best uint8) {
	least := math.Inf(1)
	for code := range n {
		if d := math.Abs(number(uint8(code)) - x); d < least {
			best, least = uint8(code), d
		}
	}
	return best
}

// FP8 returns a weight, [out, in], in float8_e4m3fn with a factor for each block of
// rows and columns, as DeepSeek-V3 has them, and what it decodes to. Blocks as large
// as the weight have one factor, which is a scalar; of blocks of one row the factors
// are [out, 1].
func FP8(module, factor string, w []float32, out, in, rows, cols int) ([]safetensors.Tensor, []half.BF16) {
	down, across := (out+rows-1)/rows, (in+cols-1)/cols
	most, factors := make([]float64, down*across), make([]float32, down*across)
	block := func(i int) int { return i/in/rows*across + i%in/cols }
	for i, v := range w {
		most[block(i)] = max(most[block(i)], math.Abs(float64(v)))
	}
	for i, m := range most {
		factors[i] = float32(m / 448)
	}
	data, decoded := make([]byte, len(w)), make([]half.BF16, len(w))
	for i, v := range w {
		f := factors[block(i)]
		data[i] = nearest(float64(v/f), 256, E4M3)
		decoded[i] = half.ToBF16(float32(E4M3(data[i])) * f)
	}
	shape := []int{down, across}
	if len(factors) == 1 {
		shape = []int{}
	}
	return []safetensors.Tensor{
		named(module+".weight", "F8_E4M3", []int{out, in}, data),
		named(module+factor, "F32", shape, tensor.BytesOf(factors)),
	}, decoded
}

// MXFP4 returns stacked weights, [experts, out, in], in blocks of 32 inputs, as
// gpt-oss has them, and what they decode to.
func MXFP4(name string, w []float32, experts, out, in int) ([]safetensors.Tensor, []half.BF16) {
	blocks, scales, decoded := make([]byte, len(w)/2), make([]byte, len(w)/32), make([]half.BF16, len(w))
	for b := range scales {
		most := 0.0
		for _, v := range w[b*32 : (b+1)*32] {
			most = max(most, math.Abs(float64(v)))
		}
		exponent := math.Floor(math.Log2(max(most, 1e-30))) - 2
		scales[b] = uint8(exponent + 127)
		for i, v := range w[b*32 : (b+1)*32] {
			code := nearest(float64(v)/math.Pow(2, exponent), 16, func(c uint8) float64 { return E2M1[c] })
			blocks[b*16+i/2] |= code << (i % 2 * 4)
			decoded[b*32+i] = half.ToBF16(float32(E2M1[code] * math.Pow(2, exponent)))
		}
	}
	return []safetensors.Tensor{
		named(name+"_blocks", "U8", []int{experts, out, in / 32, 16}, blocks),
		named(name+"_scales", "U8", []int{experts, out, in / 32}, scales),
	}, decoded
}

// Turned transposes each of n matrices of rows and columns.
func Turned[E any](v []E, n, rows, cols int) []E {
	out := make([]E, len(v))
	for i := range n {
		for r := range rows {
			for c := range cols {
				out[(i*cols+c)*rows+r] = v[(i*rows+r)*cols+c]
			}
		}
	}
	return out
}
