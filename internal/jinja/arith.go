package jinja

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// arithmetic applies a binary operator.
func (m *machine) arithmetic(op string, a, b Value) Value {
	for _, v := range []Value{a, b} {
		if u, ok := v.(*Undefined); ok {
			if _, format := textOf(a); op == "%" && format {
				break
			}
			u.fail()
		}
	}
	if isNumber(a) && isNumber(b) {
		return m.calculate(op, a, b)
	}
	_, isText := textOf(a)
	switch {
	case op == "+":
		if v := m.add(a, b); v != nil {
			return v
		}
	case op == "%" && isText:
		return m.percent(a, b)
	case op == "*":
		if v := m.repeat(a, b); v != nil {
			return v
		}
		if v := m.repeat(b, a); v != nil {
			return v
		}
	}
	raise(TypeError, "unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	return nil
}

// add joins two sequences of one type, or returns nil. HTML escapes the text that
// it is joined with.
func (m *machine) add(a, b Value) Value {
	x, isText := textOf(a)
	y, areTexts := textOf(b)
	switch {
	case isText && areTexts && (isMarkup(a) || isMarkup(b)):
		x, y = string(m.escape(a)), string(m.escape(b))
		m.reserve(len(x) + len(y))
		return Markup(x + y)
	case isText && areTexts:
		m.reserve(len(x) + len(y))
		return x + y
	case isText:
		raise(TypeError, `can only concatenate str (not "%s") to str`, typeName(b))
	}
	switch a := a.(type) {
	case *List:
		if b, ok := b.(*List); ok {
			m.reserve(valueBytes * (len(a.items) + len(b.items)))
			return &List{slices.Concat(a.items, b.items)}
		}
		raise(TypeError, `can only concatenate list (not "%s") to list`, typeName(b))
	case *Tuple:
		if b, ok := b.(*Tuple); ok {
			m.reserve(valueBytes * (len(a.items) + len(b.items)))
			return &Tuple{items: slices.Concat(a.items, b.items)}
		}
	}
	return nil
}

// repeat returns a sequence n times, or nil if it is none.
func (m *machine) repeat(v, times Value) Value {
	s, isText := textOf(v)
	var items []Value
	switch v := v.(type) {
	case *List:
		items = v.items
	case *Tuple:
		items = v.items
	default:
		if !isText {
			return nil
		}
	}
	n, ok := intOf(times)
	if !ok {
		raise(TypeError, "can't multiply sequence by non-int of type '%s'", typeName(times))
	}
	n = max(n, 0)
	if isText {
		m.reserveTimes(len(s), n)
		if s == "" {
			return v
		}
		return sameKind(v, strings.Repeat(s, n))
	}
	m.reserveTimes(valueBytes*len(items), n)
	if len(items) > 0 {
		items = slices.Repeat(items, n)
	}
	if _, ok := v.(*List); ok {
		return &List{items}
	}
	return &Tuple{items: items}
}

// sign applies a unary operator.
func (m *machine) sign(op string, v Value) Value {
	if u, ok := v.(*Undefined); ok {
		u.fail()
	}
	if f, ok := v.(float64); ok {
		if op == "-" {
			return -f
		}
		return f
	}
	b, ok := bigOf(v)
	if !ok {
		raise(TypeError, "bad operand type for unary %s: '%s'", op, typeName(v))
	}
	if op == "-" {
		m.reserve(b.BitLen() / 8)
		b = new(big.Int).Neg(b)
	}
	return integer(b)
}

// calculate applies an operator to numbers: integers stay integers but for / and
// negative powers.
func (m *machine) calculate(op string, a, b Value) Value {
	x, isX := bigOf(a)
	y, isY := bigOf(b)
	if isX && isY && op != "/" && !(op == "**" && y.Sign() < 0) {
		m.countBits(bitsOf(op, x, y))
		return calculateIntegers(op, x, y)
	}
	if op == "/" && isX && isY {
		if y.Sign() == 0 {
			raise(DivisionError, "division by zero")
		}
		if x.Sign() == 0 {
			return math.Copysign(0, float64(y.Sign()))
		}
		m.countBits(x.BitLen() + y.BitLen())
		return finite(new(big.Rat).SetFrac(x, y))
	}
	return calculateFloats(op, floatOf(a), floatOf(b))
}

// countBits counts the calculation of an integer, which takes as long as a
// multiplication or division by hand: the square of its length.
func (m *machine) countBits(bits int) {
	words := bits / 64
	m.step(words * words / 256)
	m.reserve(bits / 8)
}

// bitsOf returns how long the result and the operands of an integer operator are, at
// most. What a power would have more than integers may is refused when it is reached.
func bitsOf(op string, x, y *big.Int) int {
	bits := x.BitLen() + y.BitLen()
	if op == "**" && x.BitLen() > 1 {
		most := maxBits
		if y.IsInt64() {
			most = int(min(y.Int64(), maxBits))
		}
		bits += min(x.BitLen()*most, maxBits)
	}
	return bits
}

func calculateIntegers(op string, x, y *big.Int) Value {
	z := new(big.Int)
	switch op {
	case "+":
		return integer(z.Add(x, y))
	case "-":
		return integer(z.Sub(x, y))
	case "*":
		return integer(z.Mul(x, y))
	case "**":
		if x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > maxBits || int64(x.BitLen()-1)*y.Int64() > maxBits) {
			raise(LimitError, "an integer of more than %d bits", maxBits)
		}
		if x.BitLen() <= 1 && y.Sign() > 0 { // -1, 0, 1
			y = big.NewInt(2 - int64(y.Bit(0)))
		}
		return integer(z.Exp(x, y, nil))
	}
	if y.Sign() == 0 {
		raise(DivisionError, "integer division or modulo by zero")
	}
	rest := new(big.Int)
	z.QuoRem(x, y, rest)
	if rest.Sign() != 0 && rest.Sign() != y.Sign() {
		z.Sub(z, big.NewInt(1))
		rest.Add(rest, y)
	}
	if op == "%" {
		return integer(rest)
	}
	return integer(z)
}

func calculateFloats(op string, x, y float64) Value {
	if y == 0 && (op == "/" || op == "//" || op == "%") {
		raise(DivisionError, "float division by zero")
	}
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "**":
		return power(x, y)
	}
	rest := math.Mod(x, y)
	whole := (x - rest) / y
	if rest != 0 && (y < 0) != (rest < 0) {
		rest += y
		whole--
	} else if rest == 0 {
		rest = math.Copysign(0, y)
	}
	if op == "%" {
		return rest
	}
	if whole == 0 {
		return math.Copysign(0, x/y)
	}
	if floor := math.Floor(whole); whole-floor > 0.5 {
		return floor + 1
	} else {
		return floor
	}
}

func power(x, y float64) Value {
	z := math.Pow(x, y)
	if y == math.Trunc(y) && math.Abs(y) <= 1024 && z != 0 && !math.IsInf(z, 0) && !math.IsNaN(z) {
		z = wholePower(x, int(y))
	}
	switch {
	case x == 0 && y < 0:
		raise(DivisionError, "0.0 cannot be raised to a negative power")
	case math.IsInf(z, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0):
		raise(OverflowError, "Numerical result out of range")
	case math.IsNaN(z) && !math.IsNaN(x) && !math.IsNaN(y):
		raise(Unsupported, "a negative number to a power that is not whole, a complex number in Python")
	}
	return z
}

// wholePower returns x to the power n, rounded once; math.Pow is off by some units
// in the last place.
func wholePower(x float64, n int) float64 {
	z, factor := big.NewFloat(1).SetPrec(256), big.NewFloat(x).SetPrec(256)
	for k := max(n, -n); k > 0; k >>= 1 {
		if k&1 == 1 {
			z.Mul(z, factor)
		}
		factor.Mul(factor, factor)
	}
	if n < 0 {
		z.Quo(big.NewFloat(1).SetPrec(256), z)
	}
	f, _ := z.Float64()
	return f
}

// floatOf returns a number as a float.
func floatOf(v Value) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	return finite(exact(v))
}

// finite rounds a fraction to a float.
func finite(r *big.Rat) float64 {
	f, _ := r.Float64()
	if math.IsInf(f, 0) {
		raise(OverflowError, "int too large to convert to float")
	}
	return f
}
