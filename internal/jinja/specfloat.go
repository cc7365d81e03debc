package jinja

import (
	"math"
	"strconv"
	"strings"
)

// formatFloat formats a float by a specification.
func (m *machine) formatFloat(p spec, f float64) string {
	s := m.floatDigits(p, math.Abs(f))
	whole := strings.IndexFunc(s, func(r rune) bool { return r == '.' || r == 'e' || r == 'E' || r == '%' })
	if whole < 0 {
		whole = len(s)
	}
	return m.pad(p, p.signOf(math.Signbit(f)), grouped(s[:whole], p.group, 3)+s[whole:], '>')
}

// floatDigits returns the text of a float that is not negative.
func (m *machine) floatDigits(p spec, f float64) string {
	precision := p.precision
	if precision < 0 {
		precision = 6
	}
	if precision > 1000 {
		raise(LimitError, "a precision of %d digits", precision)
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		s := floatText(f)
		if p.verb >= 'A' && p.verb <= 'Z' {
			s = strings.ToUpper(s)
		}
		if p.verb == '%' {
			s += "%"
		}
		return s
	}
	switch p.verb {
	case 'e':
		return strconv.FormatFloat(f, 'e', precision, 64)
	case 'E':
		return strconv.FormatFloat(f, 'E', precision, 64)
	case 'f', 'F':
		return strconv.FormatFloat(f, 'f', precision, 64)
	case '%':
		return strconv.FormatFloat(f*100, 'f', precision, 64) + "%"
	case 'g', 'n':
		return general(f, precision, false)
	case 'G':
		return strings.ToUpper(general(f, precision, false))
	case 0:
		if p.precision < 0 {
			return floatText(f)
		}
		return general(f, precision, true)
	}
	raise(ValueError, "Unknown format code '%c' for object of type 'float'", p.verb)
	return ""
}

// general is %g: the shorter of fixed and exponent form, without zeros at the
// end. With point, as format() without a type has it, a fixed form keeps a digit
// behind the point and the exponent form comes one digit earlier.
func general(f float64, precision int, point bool) string {
	precision = max(precision, 1)
	e := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, power, _ := strings.Cut(e, "e")
	exponent, _ := strconv.Atoi(power)
	most := precision
	if point {
		most--
	}
	if exponent < -4 || exponent >= most && f != 0 {
		return trimZeros(mantissa) + "e" + power
	}
	s := trimZeros(strconv.FormatFloat(f, 'f', max(precision-1-exponent, 0), 64))
	if point && !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
