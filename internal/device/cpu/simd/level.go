package simd

import (
	"fmt"
	"os"
)

// A Level is a set of vector instructions.
type Level uint8

// The levels. AVX2 includes FMA and F16C; AVX512 is its F, BW, DQ and VL parts.
const (
	None Level = iota
	AVX2
	AVX512
)

var levelNames = [...]string{None: "none", AVX2: "avx2", AVX512: "avx512"}

// String returns the level as EXL2_SIMD spells it.
func (l Level) String() string { return levelNames[l] }

// kernels are the assembly routines of a level. A nil routine has only its
// fallback. The lengths that routines over slices are given are multiples of block.
type kernels struct {
	gemm32 tiler[float32]
	gemm64 tiler[float64]

	widenF16, widenBF16 func(dst *float32, src *uint16, n int)
	narrowF16           func(dst *uint16, src *float32, n int)

	gemvF16, gemvBF16 func(y, x *float32, w *uint16, stride, n, rows int)
	gemvF32           func(y, x, w *float32, stride, n, rows int)
	gemvT             func(y, x, w *float32, stride, rows, cols int)

	packedGemv   [9]func(y, x *float32, codes, scales *uint8, values *float32, rows, unit, quads int) // by bit width
	packedDecode [9]func(dst *float32, stride int, codes, scales *uint8, values *float32, rows, unit, quads int)
	collectCodes func(lane *uint64, words, next *uint32, down, up int, mask uint64, n int)

	gridErrors    func(err, w *float32, stride int, importance *float32, rows int, scale, inv *float32, zero float32, cols int)
	gridQuantize  func(codes *uint8, e, w, scale, inv *float32, rinv, zero float32, cols int)
	gridDescend   func(codes *uint8, rest, scale, inv *float32, step, zero float32, cols int)
	subtractOuter func(w *float32, stride int, u *float32, rows int, e *float32, cols int)

	beside  func(up, down, code, scale, zero, largest *float32, n int)
	partner func(up, down, diagonal, left, h *float32, d float32, best *float32, skip, n int) (at int)

	expSum           func(sum, dst, src *float32, max float32, n int)
	maximum          func(max, x *float32, n int)
	siluMul, geluMul func(dst, gate, up *float32, n int)
}

// block is the elements that the assembly takes at a time.
const block = 32

var (
	active Level
	asm    kernels
	envErr error
)

func init() {
	SetLevel(Supported())
	if l, err := levelFromEnv(os.Getenv("EXL2_SIMD")); err != nil {
		envErr = err
	} else {
		SetLevel(l)
	}
}

// Active returns the level in use: the best that the machine has, or what the
// environment variable EXL2_SIMD asked for.
func Active() Level { return active }

// EnvError reports why EXL2_SIMD could not be followed, if so; the machine's
// best level is in use then.
func EnvError() error { return envErr }

// SetLevel changes the level in use and returns the one before. It is for tests
// and must not be called while other goroutines use the package. It panics if
// the machine lacks the level.
func SetLevel(l Level) (before Level) {
	if l > Supported() {
		panic(fmt.Sprintf("simd: SetLevel: this machine has no %v", l))
	}
	before, active, asm = active, l, kernelsOf(l)
	return before
}

// levelFromEnv interprets EXL2_SIMD; empty means the best.
func levelFromEnv(text string) (Level, error) {
	if text == "" {
		return Supported(), nil
	}
	for i, name := range levelNames {
		if l := Level(i); name == text && l > Supported() {
			return None, fmt.Errorf("EXL2_SIMD=%s: this machine's best is %v", text, Supported())
		} else if name == text {
			return l, nil
		}
	}
	return None, fmt.Errorf("EXL2_SIMD=%s: want avx512, avx2 or none", text)
}
