package ptx

import (
	"fmt"
	"math"
	"math/bits"
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

type function1 func(a uint64) uint64
type function2 func(a, b uint64) uint64

// each applies a function to both halves of registers that have two.
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

// least is min of PTX: of two that one is no number, the other, unless told otherwise.
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
	has := func(m string) bool {
		for _, o := range mods {
			if o == m {
				return true
			}
		}
		return false
	}
	if t.letter == 'f' {
		switch op {
		case "add", "sub":
			if has("rz") {
				if op == "sub" {
					break
				}
				return func(a, b uint64) uint64 { return t.fused(t.float(a), 1, t.float(b), "rz") }, nil
			}
			if op == "add" {
				return t.floats(func(a, b float64) float64 { return a + b }), nil
			}
			return t.floats(func(a, b float64) float64 { return a - b }), nil
		case "mul":
			return t.floats(func(a, b float64) float64 { return a * b }), nil
		case "div":
			return t.floats(func(a, b float64) float64 { return a / b }), nil
		case "min", "max":
			return t.floats(extreme(op == "max", has("NaN"))), nil
		}
		return nil, fmt.Errorf("%s of floats is not known", op)
	}
	s := t.letter == 's'
	switch op {
	case "add":
		return t.ints(func(a, b uint64) uint64 { return a + b }), nil
	case "sub":
		return t.ints(func(a, b uint64) uint64 { return a - b }), nil
	case "and":
		return func(a, b uint64) uint64 { return a & b }, nil
	case "or":
		return func(a, b uint64) uint64 { return a | b }, nil
	case "xor":
		return func(a, b uint64) uint64 { return a ^ b }, nil
	case "shl":
		return t.ints(func(a, b uint64) uint64 {
			if b &= 1<<32 - 1; b >= uint64(t.bits) {
				return 0
			}
			return a << b
		}), nil
	case "shr":
		return t.ints(func(a, b uint64) uint64 {
			b = min(b&(1<<32-1), 63)
			if s {
				return uint64(t.signed(a) >> b)
			}
			if b >= uint64(t.bits) {
				return 0
			}
			return t.cut(a) >> b
		}), nil
	case "mul":
		switch {
		case has("lo"):
			return t.ints(func(a, b uint64) uint64 { return a * b }), nil
		case has("wide") && s:
			return func(a, b uint64) uint64 {
				return numeric{letter: 'u', bits: 2 * t.bits}.cut(uint64(t.signed(a) * t.signed(b)))
			}, nil
		case has("wide"):
			return func(a, b uint64) uint64 { return t.cut(a) * t.cut(b) }, nil
		case has("hi") && t.bits == 32 && s:
			return t.ints(func(a, b uint64) uint64 { return uint64(t.signed(a) * t.signed(b) >> 32) }), nil
		case has("hi") && t.bits == 32:
			return t.ints(func(a, b uint64) uint64 { return t.cut(a) * t.cut(b) >> 32 }), nil
		case has("hi") && !s:
			return func(a, b uint64) uint64 { high, _ := bits.Mul64(a, b); return high }, nil
		}
	case "div", "rem":
		return t.ints(func(a, b uint64) uint64 {
			if t.cut(b) == 0 {
				return math.MaxUint64
			}
			switch {
			case s && op == "div":
				return uint64(t.signed(a) / t.signed(b))
			case s:
				return uint64(t.signed(a) % t.signed(b))
			case op == "div":
				return t.cut(a) / t.cut(b)
			}
			return t.cut(a) % t.cut(b)
		}), nil
	case "min", "max":
		return func(a, b uint64) uint64 {
			less := t.cut(a) < t.cut(b)
			if s {
				less = t.signed(a) < t.signed(b)
			}
			if less == (op == "min") {
				return a
			}
			return b
		}, nil
	}
	return nil, fmt.Errorf("%s of integers is not known", op)
}

// compare returns a comparison by its name.
func compare(op string, t numeric) (func(a, b uint64) bool, error) {
	if t.letter == 'f' {
		unordered := len(op) == 3 && op[2] == 'u'
		f, ok := map[string]func(a, b float64) bool{
			"eq": func(a, b float64) bool { return a == b }, "ne": func(a, b float64) bool { return a != b && a == a && b == b },
			"lt": func(a, b float64) bool { return a < b }, "le": func(a, b float64) bool { return a <= b },
			"gt": func(a, b float64) bool { return a > b }, "ge": func(a, b float64) bool { return a >= b },
			"num": func(a, b float64) bool { return a == a && b == b }, "nan": func(a, b float64) bool { return a != a || b != b },
		}[op[:min(len(op), 2+flag(op == "num" || op == "nan"))]]
		if !ok {
			return nil, fmt.Errorf("comparison %s is not known", op)
		}
		return func(a, b uint64) bool {
			x, y := t.float(a), t.float(b)
			return f(x, y) || unordered && (x != x || y != y)
		}, nil
	}
	order := func(a, b uint64) int {
		a, b = t.cut(a), t.cut(b)
		if t.letter == 's' {
			a, b = uint64(t.signed(a))+1<<63, uint64(t.signed(b))+1<<63
		}
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	}
	f, ok := map[string]func(n int) bool{"eq": func(n int) bool { return n == 0 }, "ne": func(n int) bool { return n != 0 }, "lt": func(n int) bool { return n < 0 },
		"le": func(n int) bool { return n <= 0 }, "gt": func(n int) bool { return n > 0 }, "ge": func(n int) bool { return n >= 0 }}[op]
	if !ok {
		return nil, fmt.Errorf("comparison %s is not known", op)
	}
	return func(a, b uint64) bool { return f(order(a, b)) }, nil
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// convert returns a conversion.
func convert(mods []string, to, from numeric) (function1, error) {
	way, saturate := "", false
	for _, m := range mods {
		switch m {
		case "sat":
			saturate = true
		case "rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna":
			way = m
		}
	}
	whole := func(v float64) float64 {
		switch way {
		case "rni":
			return math.RoundToEven(v)
		case "rzi":
			return math.Trunc(v)
		case "rmi":
			return math.Floor(v)
		case "rpi":
			return math.Ceil(v)
		}
		return v
	}
	switch {
	case from.letter == 'f' && to.letter == 'f':
		return func(a uint64) uint64 {
			v := whole(from.float(a))
			if saturate {
				if v = math.Min(math.Max(v, 0), 1); math.IsNaN(v) {
					v = 0
				}
			}
			return to.bitsOf(v)
		}, nil
	case from.letter == 'f':
		return func(a uint64) uint64 {
			v := whole(from.float(a))
			low, high := 0.0, math.Ldexp(1, to.bits)-1
			if to.letter == 's' {
				low, high = -math.Ldexp(1, to.bits-1), math.Ldexp(1, to.bits-1)-1
			}
			switch {
			case math.IsNaN(v):
				return 0
			case v <= low:
				if to.letter == 's' {
					return to.cut(1 << (to.bits - 1))
				}
				return 0
			case v >= high:
				if to.letter == 's' {
					return to.cut(1<<(to.bits-1) - 1)
				}
				return to.cut(math.MaxUint64)
			case to.letter == 's':
				return to.cut(uint64(int64(v)))
			}
			return to.cut(uint64(v))
		}, nil
	case to.letter == 'f':
		return func(a uint64) uint64 {
			if from.letter == 's' {
				if to.bits == 32 {
					return uint64(math.Float32bits(float32(from.signed(a))))
				}
				return to.bitsOf(float64(from.signed(a)))
			}
			if to.bits == 32 {
				return uint64(math.Float32bits(float32(from.cut(a))))
			}
			return to.bitsOf(float64(from.cut(a)))
		}, nil
	}
	return func(a uint64) uint64 {
		if from.letter == 's' {
			return to.cut(uint64(from.signed(a)))
		}
		return to.cut(from.cut(a))
	}, nil
}
