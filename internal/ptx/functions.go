package ptx

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Functions of the bits of one operand, and of two.
type function1 func(a uint64) uint64
type function2 func(a, b uint64) uint64

// each1 applies a function to both halves of registers that have two, and each one of two operands.
func (t numeric) each1(f function1) function1 {
	if !t.twice {
		return f
	}
	return func(a uint64) uint64 { return f(a&0xffff)&0xffff | f(a>>16&0xffff)<<16 }
}

func (t numeric) each(f function2) function2 {
	if !t.twice {
		return f
	}
	return func(a, b uint64) uint64 { return f(a&0xffff, b&0xffff)&0xffff | f(a>>16&0xffff, b>>16&0xffff)<<16 }
}

// floats makes a function of numbers one of bits.
func (t numeric) floats(f func(a, b float64) float64) function2 {
	return t.each(func(a, b uint64) uint64 { return t.bitsOf(f(t.float(a), t.float(b))) })
}

func (t numeric) ints(f func(a, b uint64) uint64) function2 {
	return func(a, b uint64) uint64 { return t.cut(f(a, b)) }
}

// extreme is min or max of PTX: of two of which one is no number, the other, unless it is strict.
func extreme(larger, strict bool) func(a, b float64) float64 {
	return func(a, b float64) float64 {
		switch {
		case math.IsNaN(a) || math.IsNaN(b):
			if strict || math.IsNaN(a) && math.IsNaN(b) {
				return math.NaN()
			}
			if math.IsNaN(a) {
				return b
			}
			return a
		case larger:
			return math.Max(a, b)
		}
		return math.Min(a, b)
	}
}

// binaryOf returns a function of two operands by its name and modifiers.
func binaryOf(op string, mods []string, t numeric) (function2, error) {
	var f function2
	kind := "integers"
	switch {
	case t.letter == 'f':
		kind, f = "floats", floatsOf(op, mods, t)
	case op == "mul":
		f = productOf(mods, t)
	default:
		f = integersOf(op, t)
	}
	if f == nil {
		return nil, fmt.Errorf("%s of %s is not known", op, kind)
	}
	return f, nil
}

// floatsOf is binaryOf of floats, or nil.
func floatsOf(op string, mods []string, t numeric) function2 {
	toZero := slices.Contains(mods, "rz")
	switch {
	case op == "add" && toZero:
		return func(a, b uint64) uint64 { return t.fused(t.float(a), 1, t.float(b), "rz") }
	case toZero:
		return nil
	case op == "add":
		return t.floats(func(a, b float64) float64 { return a + b })
	case op == "sub":
		return t.floats(func(a, b float64) float64 { return a - b })
	case op == "mul":
		return t.floats(func(a, b float64) float64 { return a * b })
	case op == "div":
		return t.floats(func(a, b float64) float64 { return a / b })
	case op == "min" || op == "max":
		return t.floats(extreme(op == "max", slices.Contains(mods, "NaN")))
	}
	return nil
}

// integersOf is binaryOf of integers, or nil.
func integersOf(op string, t numeric) function2 {
	switch op {
	case "add":
		return t.ints(func(a, b uint64) uint64 { return a + b })
	case "sub":
		return t.ints(func(a, b uint64) uint64 { return a - b })
	case "and":
		return func(a, b uint64) uint64 { return a & b }
	case "or":
		return t.ints(func(a, b uint64) uint64 { return a | b }) // numbers in the text have 64 bits
	case "xor":
		return t.ints(func(a, b uint64) uint64 { return a ^ b })
	case "shl", "shr":
		return t.ints(t.shift(op == "shl"))
	case "div", "rem":
		return t.ints(t.divide(op == "div"))
	case "min", "max":
		return func(a, b uint64) uint64 {
			if (t.order(a, b) < 0) == (op == "min") {
				return a
			}
			return b
		}
	}
	return nil
}

// shift is by as many bits as the second operand says; all beyond the type's are those behind the last.
func (t numeric) shift(left bool) function2 {
	return func(a, b uint64) uint64 {
		b &= 1<<32 - 1
		switch {
		case t.letter == 's' && !left:
			return uint64(t.signed(a) >> min(b, 63))
		case b >= uint64(t.bits):
			return 0
		case left:
			return a << b
		}
		return t.cut(a) >> b
	}
}

// divide returns the quotient, or what is left over. By zero all bits are set.
func (t numeric) divide(quotient bool) function2 {
	return func(a, b uint64) uint64 {
		a, b = t.cut(a), t.cut(b)
		switch {
		case b == 0:
			return math.MaxUint64
		case t.letter == 's' && quotient:
			return uint64(t.signed(a) / t.signed(b))
		case t.letter == 's':
			return uint64(t.signed(a) % t.signed(b))
		case quotient:
			return a / b
		}
		return a % b
	}
}

// productOf is binaryOf of a product, of which its modifiers say what is wanted, or nil.
func productOf(mods []string, t numeric) function2 {
	low, high, wide := slices.Contains(mods, "lo"), slices.Contains(mods, "hi"), slices.Contains(mods, "wide")
	s, double := t.letter == 's', numeric{letter: 'u', bits: 2 * t.bits}
	switch {
	case low:
		return t.ints(func(a, b uint64) uint64 { return a * b })
	case wide && s:
		return double.ints(func(a, b uint64) uint64 { return uint64(t.signed(a) * t.signed(b)) })
	case wide:
		return func(a, b uint64) uint64 { return t.cut(a) * t.cut(b) }
	case high && t.bits == 32 && s:
		return t.ints(func(a, b uint64) uint64 { return uint64(t.signed(a) * t.signed(b) >> 32) })
	case high && !s:
		return func(a, b uint64) uint64 {
			above, below := bits.Mul64(t.cut(a), t.cut(b))
			if t.bits == 64 {
				return above
			}
			return t.cut(below >> t.bits)
		}
	}
	return nil
}
