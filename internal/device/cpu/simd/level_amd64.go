package simd

import "golang.org/x/sys/cpu"

// Supported returns the best level that this machine has.
func Supported() Level {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return None
	}
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		return AVX512
	}
	return AVX2
}

// kernelsOf returns the assembly of a level.
func kernelsOf(l Level) kernels {
	switch l {
	case AVX512:
		return avx512Kernels
	case AVX2:
		return avx2Kernels
	}
	return kernels{}
}

var (
	transposers32 = []transposer[float32]{{8, transpose32x8AVX2}, {4, transpose32x4AVX2}, {2, transpose32x2AVX2}}
	transposers64 = []transposer[float64]{{4, transpose64x4AVX2}, {2, transpose64x2AVX2}}
)

var avx512Kernels = kernels{
	gemm32: tiler[float32]{12, 32, gemm32AVX512, copyRuns48AVX2, copyRuns128AVX2, transposers32},
	gemm64: tiler[float64]{12, 16, gemm64AVX512, copyRuns96AVX2, copyRuns128AVX2, transposers64},

	widenF16: widenF16AVX512, widenBF16: widenBF16AVX512, narrowF16: narrowF16AVX512,

	gemvF16: gemvF16AVX512, gemvBF16: gemvBF16AVX512, gemvF32: gemvF32AVX512, gemvT: gemvTAVX512,

	packedGemv: [...]func(y, x *float32, codes, scales *uint8, values *float32, rows, unit, quads int){
		2: packedGemv2AVX512, 3: packedGemv3AVX512, 4: packedGemv4AVX512, 5: packedGemv5AVX512, 6: packedGemv6AVX512, 8: packedGemv8AVX512,
	},
	packedDecode: [...]func(dst *float32, stride int, codes, scales *uint8, values *float32, rows, unit, quads int){
		2: packedDecode2AVX512, 3: packedDecode3AVX512, 4: packedDecode4AVX512, 5: packedDecode5AVX512, 6: packedDecode6AVX512, 8: packedDecode8AVX512,
	},
	collectCodes: collectCodesAVX512,

	gridErrors: gridErrorsAVX512, gridQuantize: gridQuantizeAVX512, gridDescend: gridDescendAVX512, subtractOuter: subtractOuterAVX512,

	beside: besideAVX512, partner: partnerAVX512,

	expSum: expSumAVX512, maximum: maximumAVX512, siluMul: siluMulAVX512, geluMul: geluMulAVX512,
}

var avx2Kernels = kernels{
	gemm32: tiler[float32]{6, 16, gemm32AVX2, copyRuns24AVX2, copyRuns64AVX2, transposers32},
	gemm64: tiler[float64]{6, 8, gemm64AVX2, copyRuns48AVX2, copyRuns64AVX2, transposers64},

	widenF16: widenF16AVX2, widenBF16: widenBF16AVX2, narrowF16: narrowF16AVX2,

	gemvF16: gemvF16AVX2, gemvBF16: gemvBF16AVX2, gemvF32: gemvF32AVX2, gemvT: gemvTAVX2,

	packedGemv: [...]func(y, x *float32, codes, scales *uint8, values *float32, rows, unit, quads int){
		2: packedGemv2AVX2, 3: packedGemv3AVX2, 4: packedGemv4AVX2, 5: packedGemv5AVX2, 6: packedGemv6AVX2, 8: packedGemv8AVX2,
	},
	packedDecode: [...]func(dst *float32, stride int, codes, scales *uint8, values *float32, rows, unit, quads int){
		2: packedDecode2AVX2, 3: packedDecode3AVX2, 4: packedDecode4AVX2, 5: packedDecode5AVX2, 6: packedDecode6AVX2, 8: packedDecode8AVX2,
	},
	collectCodes: collectCodesAVX2,

	gridErrors: gridErrorsAVX2, gridQuantize: gridQuantizeAVX2, gridDescend: gridDescendAVX2, subtractOuter: subtractOuterAVX2,

	beside: besideAVX2, partner: partnerAVX2,

	expSum: expSumAVX2, maximum: maximumAVX2, siluMul: siluMulAVX2, geluMul: geluMulAVX2,
}
