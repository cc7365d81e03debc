package ptx

import (
	"math"
	"strconv"

	"exl2/internal/half"
)

// A numeric is a type of PTX: a letter and bits.
type numeric struct {
	letter byte // b, u, s, f, or p for predicates
	bits   int
	twice  bool // two halves in a register
	brain  bool // bf16
}

func numericOf(name string) (numeric, bool) {
	switch name {
	case "pred":
		return numeric{letter: 'p', bits: 1}, true
	case "f16x2":
		return numeric{letter: 'f', bits: 16, twice: true}, true
	case "bf16":
		return numeric{letter: 'f', bits: 16, brain: true}, true
	case "bf16x2":
		return numeric{letter: 'f', bits: 16, brain: true, twice: true}, true
	}
	if len(name) < 2 {
		return numeric{}, false
	}
	n, err := strconv.Atoi(name[1:])
	ok := err == nil && (name[0] == 'b' || name[0] == 'u' || name[0] == 's' || name[0] == 'f') && (n == 8 || n == 16 || n == 32 || n == 64)
	return numeric{letter: name[0], bits: n}, ok
}

func (t numeric) bytes() int { return t.bits / 8 }

// cut leaves what a register of the type has.
func (t numeric) cut(v uint64) uint64 {
	if t.bits == 64 {
		return v
	}
	return v & (1<<t.bits - 1)
}

func (t numeric) signed(v uint64) int64 { return int64(v<<(64-t.bits)) >> (64 - t.bits) }

// float returns the number that bits stand for.
func (t numeric) float(v uint64) float64 {
	switch t.bits {
	case 16:
		if t.brain {
			return float64(half.BF16(uint16(v)).Float32())
		}
		return float64(half.F16(uint16(v)).Float32())
	case 32:
		return float64(math.Float32frombits(uint32(v)))
	}
	return math.Float64frombits(v)
}

// bitsOf rounds a number to the type, to the nearest, ties to even.
func (t numeric) bitsOf(v float64) uint64 {
	switch t.bits {
	case 16:
		if t.brain {
			return uint64(half.ToBF16(float32(v)))
		}
		return uint64(toHalf(v))
	case 32:
		return uint64(math.Float32bits(float32(v)))
	}
	return math.Float64bits(v)
}

// toHalf rounds to fp16 at once: by way of float32 some ties would be rounded twice.
func toHalf(v float64) uint16 {
	if a := math.Abs(v); a != 0 && a < 65504 {
		step := math.Ldexp(1, max(math.Ilogb(a), -14)-10)
		v = math.RoundToEven(v/step) * step
	}
	return uint16(half.ToF16(float32(v)))
}

// fused is a·b + c, rounded once, in a way: to the nearest, to zero or down.
func (t numeric) fused(a, b, c float64, way string) uint64 {
	if t.bits == 64 {
		return math.Float64bits(math.FMA(a, b, c))
	}
	p := a * b // of numbers of up to 32 bits this is exact
	sum := p + c
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return t.bitsOf(sum)
	}
	if lost := (p - (sum - c)) + (c - (sum - (sum - c))); lost != 0 {
		sum = odd(sum, lost)
	}
	return t.round(sum, way)
}

// odd returns a sum, of which something has been lost in rounding, with a last bit that says so: rounded to
// fewer bits it is as the exact sum would be.
func odd(sum, lost float64) float64 {
	bits := math.Float64bits(sum)
	if bits&1 == 1 {
		return sum
	}
	if (lost > 0) == (sum > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}

// round rounds to the nearest, to zero, down or up.
func (t numeric) round(v float64, way string) uint64 {
	if t.bits != 32 || way == "" || way == "rn" {
		return t.bitsOf(v)
	}
	near := float32(v)
	switch {
	case way == "rm" && float64(near) > v:
		near = math.Nextafter32(near, float32(math.Inf(-1)))
	case way == "rp" && float64(near) < v:
		near = math.Nextafter32(near, float32(math.Inf(1)))
	case way == "rz" && math.Abs(float64(near)) > math.Abs(v):
		near = math.Nextafter32(near, 0)
	}
	return uint64(math.Float32bits(near))
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
