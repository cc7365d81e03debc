package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

var numberFilters = table(
	function("abs", "x", func(m *machine, a []Value) Value {
		if f, ok := a[0].(float64); ok {
			return math.Abs(f)
		}
		b, ok := bigOf(a[0])
		if !ok {
			raise(TypeError, "bad operand type for abs(): '%s'", typeName(a[0]))
		}
		m.reserve(b.BitLen() / 8)
		return integer(new(big.Int).Abs(b))
	}),
	function("int", "value, default=0, base=10", intFilter),
	function("float", "value, default=0.0", func(m *machine, a []Value) Value {
		if f, ok := m.toFloat(a[0]); ok {
			return f
		}
		return a[1]
	}),
	function("round", `value, precision=0, method="common"`, roundFilter),
	function("filesizeformat", "value, binary=False", fileSize),
)

// intFilter reads an integer, or a float of which it takes the whole part.
func intFilter(m *machine, a []Value) Value {
	if b, ok := bigOf(a[0]); ok {
		return integer(b)
	}
	if s, ok := textOf(a[0]); ok {
		base, isInt := intOf(a[2])
		if b, ok := m.parseInt(s, base); ok && isInt {
			return b
		}
	}
	f, ok := m.toFloat(a[0])
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		if _, isFloat := a[0].(float64); isFloat && math.IsInf(f, 0) {
			raise(OverflowError, "cannot convert float infinity to integer")
		}
		return a[1]
	}
	b, _ := big.NewFloat(f).Int(nil)
	return integer(b)
}

func roundFilter(m *machine, a []Value) Value {
	method := wantText("the method of round()", a[2])
	if a[1] == nil && method == "common" {
		return intFilter(m, []Value{roundEven(a[0], 0), 0, 10})
	}
	precision := wantInt(a[1])
	if abs := max(precision, -precision); abs > 400 {
		raise(LimitError, "round: a precision of %d digits", precision)
	}
	switch method {
	case "common":
		return roundEven(a[0], precision)
	case "ceil", "floor":
	default:
		raise(ArgumentError, "method must be common, ceil or floor")
	}
	scale := m.calculate("**", 10, precision)
	v := m.arithmetic("*", a[0], scale)
	if !isNumber(v) {
		raise(TypeError, "must be real number, not %s", typeName(v))
	}
	if f, ok := v.(float64); ok {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			raise(OverflowError, "cannot convert float to integer")
		}
		if method == "ceil" {
			f = math.Ceil(f)
		} else {
			f = math.Floor(f)
		}
		b, _ := big.NewFloat(f).Int(nil)
		v = integer(b)
	}
	return m.calculate("/", v, scale)
}

// roundEven is Python's round: to the nearest, of two the even one.
func roundEven(v Value, precision int) Value {
	if !isNumber(v) {
		raise(TypeError, "type %s doesn't define __round__ method", typeName(v))
	}
	f, isFloat := v.(float64)
	if isFloat && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return f
	}
	if precision >= 0 {
		if !isFloat {
			b, _ := bigOf(v)
			return integer(b)
		}
		r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		return r
	}
	unit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil))
	q := new(big.Rat).Quo(exact(v), unit)
	whole := new(big.Int).Div(q.Num(), q.Denom())
	rest := new(big.Rat).Sub(q, new(big.Rat).SetInt(whole))
	if c := rest.Cmp(big.NewRat(1, 2)); c > 0 || c == 0 && whole.Bit(0) == 1 {
		whole.Add(whole, big.NewInt(1))
	}
	result := new(big.Int).Mul(whole, unit.Num())
	if isFloat {
		return math.Copysign(finite(new(big.Rat).SetInt(result)), f)
	}
	return integer(result)
}

func fileSize(m *machine, a []Value) Value {
	bytes, ok := m.toFloat(a[0])
	if !ok {
		raise(ValueError, "could not convert to float: %s", shortText(a[0]))
	}
	base, units := 1000.0, "kB MB GB TB PB EB ZB YB"
	if truth(a[1]) {
		base, units = 1024, "KiB MiB GiB TiB PiB EiB ZiB YiB"
	}
	switch {
	case bytes == 1:
		return "1 Byte"
	case bytes < base:
		return fmt.Sprintf("%d Bytes", int(bytes))
	}
	size := bytes
	for _, u := range strings.Fields(units) {
		if size /= base; size < base || strings.HasPrefix(u, "Y") {
			return fmt.Sprintf("%.1f %s", size, u)
		}
	}
	return nil
}
