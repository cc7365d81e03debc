package jinja

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A spec says how a value is formatted: the middle part of {:>8.2f} and of %8.2f.
type spec struct {
	fill      rune
	align     byte // '<', '>', '^', '=' or 0
	sign      byte // '+', ' ' or '-'
	alternate bool
	width     int
	group     string // "," or "_"
	precision int    // -1 if not given
	verb      byte   // 0 if not given
}

// parseSpec reads a format specification of str.format.
func parseSpec(s string) spec {
	p := spec{fill: ' ', sign: '-', precision: -1}
	all := s
	if r, n := utf8.DecodeRuneInString(s); n < len(s) && strings.IndexByte("<>=^", s[n]) >= 0 && n > 0 {
		p.fill, p.align, s = r, s[n], s[n+1:]
	} else if s != "" && strings.IndexByte("<>=^", s[0]) >= 0 {
		p.align, s = s[0], s[1:]
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		p.sign, s = s[0], s[1:]
	}
	if strings.HasPrefix(s, "#") {
		p.alternate, s = true, s[1:]
	}
	if strings.HasPrefix(s, "0") && p.align == 0 {
		p.fill, p.align = '0', '='
	}
	p.width, s = leadingInt(s)
	if s != "" && (s[0] == ',' || s[0] == '_') {
		p.group, s = s[:1], s[1:]
	}
	if strings.HasPrefix(s, ".") {
		rest := s[1:]
		p.precision, s = leadingInt(rest)
		if s == rest {
			raise(ValueError, "Format specifier missing precision")
		}
	}
	if len(s) == 1 {
		p.verb, s = s[0], ""
	}
	if s != "" {
		raise(ValueError, "Invalid format specifier %s", repr(all))
	}
	return p
}

// leadingInt reads digits; 0 stands for none.
func leadingInt(s string) (int, string) {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	if n > 9 {
		raise(LimitError, "a width of %.40s characters", s[:n])
	}
	v, _ := strconv.Atoi("0" + s[:n])
	return v, s[n:]
}

// pad fills a text up to the width. The sign of a number stands in front of what
// fills with '='.
func (m *machine) pad(p spec, sign, s string, standard byte) string {
	align := p.align
	if align == 0 {
		align = standard
	}
	missing := max(p.width-runeCount(sign)-runeCount(s), 0)
	left := missing
	switch align {
	case '<':
		left = 0
	case '^':
		left = missing / 2
	}
	if align == '=' {
		return m.padded(sign, string(p.fill), left, s, 0)
	}
	return m.padded("", string(p.fill), left, sign+s, missing-left)
}

// apply formats a value by a specification, as format() does.
func (m *machine) apply(p spec, v Value) string {
	if s, ok := textOf(v); ok {
		return m.formatText(p, s)
	}
	if _, isBool := v.(bool); !isBool || p.verb != 0 {
		if b, ok := bigOf(v); ok {
			if strings.IndexByte("eEfFgG%", p.verb) < 0 || p.verb == 0 {
				return m.formatInt(p, b)
			}
			v = floatOf(v)
		}
		if f, ok := v.(float64); ok {
			return m.formatFloat(p, f)
		}
	}
	if p != parseSpec("") {
		if _, isBool := v.(bool); !isBool {
			raise(TypeError, "unsupported format string passed to %s.__format__", typeName(v))
		}
	}
	return m.pad(p, "", m.text(v), '<')
}

func (m *machine) formatText(p spec, s string) string {
	if p.verb != 0 && p.verb != 's' || p.group != "" || p.sign != '-' || p.align == '=' && p.fill != '0' {
		raise(ValueError, "Unknown format code '%c' for object of type 'str'", p.verb)
	}
	if p.align == '=' {
		p.align = '<'
	}
	if p.precision >= 0 {
		s = runeSlice(s, 0, min(p.precision, runeCount(s)))
	}
	return m.pad(p, "", s, '<')
}

func (p spec) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case p.sign == '-':
		return ""
	}
	return string(p.sign)
}

func (m *machine) formatInt(p spec, b *big.Int) string {
	if p.precision >= 0 {
		raise(ValueError, "Precision not allowed in integer format specifier")
	}
	base, ok := map[byte]int{0: 10, 'd': 10, 'n': 10, 'b': 2, 'o': 8, 'x': 16, 'X': 16, 'c': -1}[p.verb]
	if !ok {
		raise(ValueError, "Unknown format code '%c' for object of type 'int'", p.verb)
	}
	if base < 0 {
		return m.pad(p, "", characterOf(b), '<')
	}
	digits := strings.TrimPrefix(m.digits(b, base), "-")
	prefix := ""
	if p.alternate && base != 10 {
		prefix = "0" + string(p.verb)
	}
	if p.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	size := 3
	if base != 10 {
		size = 4
	}
	return m.pad(p, p.signOf(b.Sign() < 0)+prefix, grouped(digits, p.group, size), '>')
}

// digits returns an integer in a base. Python bounds how many of those there may be of
// a base that is no power of two.
func (m *machine) digits(b *big.Int, base int) string {
	m.reserve(b.BitLen())
	if base == 10 {
		return bigText(b)
	}
	return b.Text(base)
}

// characterOf returns the character of a code point.
func characterOf(b *big.Int) string {
	if !b.IsInt64() || b.Int64() < 0 || b.Int64() > utf8.MaxRune {
		raise(OverflowError, "a character's number is not in range(0x110000)")
	}
	return string(rune(b.Int64()))
}

// grouped puts a separator between groups of digits.
func grouped(digits, separator string, size int) string {
	if separator == "" {
		return digits
	}
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%size == 0 {
			b.WriteString(separator)
		}
		b.WriteByte(digits[i])
	}
	return b.String()
}
