package jinja

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// numeral returns a text as numbers are read: without blanks around it, in lower case
// and with ASCII's digits; a number has no other characters beyond ASCII.
func (m *machine) numeral(s string) (text string, ok bool) {
	m.step(len(s) / 4)
	s = strings.TrimFunc(s, isSpace)
	m.reserve(4 * len(s))
	other := func(r rune) bool { return r >= utf8.RuneSelf && !unicode.Is(unicode.Nd, r) }
	if strings.IndexFunc(s, other) >= 0 {
		return "", false
	}
	return strings.ToLower(asciiDigits(s)), true
}

// parseInt reads what Python's int does, or returns false where that raises ValueError.
func (m *machine) parseInt(s string, base int) (Value, bool) {
	s, ok := m.numeral(s)
	if !ok || base != 0 && (base < 2 || base > 36) {
		return nil, false
	}
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 {
		return nil, false
	}
	negative := strings.HasPrefix(s, "-")
	digits, base = withoutPrefix(digits, base)
	if digits == "" || digits[0] == '_' || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return nil, false
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if !areDigits(digits, base) || base&(base-1) != 0 && len(digits) > maxDigits {
		return nil, false
	}
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > maxBits {
		raise(LimitError, "an integer of more than %d bits", maxBits)
	}
	b, _ := new(big.Int).SetString("0"+digits, base)
	if negative {
		b.Neg(b)
	}
	return integer(b), true
}

// withoutPrefix returns the digits behind the prefix of a base. Base 0 is the one that
// the prefix says; without any, only zeros begin with 0.
func withoutPrefix(digits string, base int) (string, int) {
	for of, prefix := range map[int]string{2: "0b", 8: "0o", 16: "0x"} {
		if (base == 0 || base == of) && strings.HasPrefix(digits, prefix) {
			return strings.TrimPrefix(digits[2:], "_"), of
		}
	}
	if base != 0 {
		return digits, base
	}
	if strings.HasPrefix(digits, "0") && strings.Trim(digits, "0_") != "" {
		return "", 10
	}
	return digits, 10
}

// areDigits reports whether all characters are digits in a base.
func areDigits(s string, base int) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		switch {
		case r >= '0' && r <= '9':
			return int(r-'0') >= base
		case r >= 'a' && r <= 'z':
			return int(r-'a')+10 >= base
		}
		return true
	}) < 0
}

// floatForm is what Python's float reads, in lower case. Underscores stand between digits.
var floatForm = regexp.MustCompile(`^[+-]?((\d+(_\d+)*(\.(\d+(_\d+)*)?)?|\.\d+(_\d+)*)(e[+-]?\d+(_\d+)*)?|inf|infinity|nan)$`)

// toFloat is Python's float, or false where that raises TypeError or ValueError.
func (m *machine) toFloat(v Value) (float64, bool) {
	if u, ok := v.(*Undefined); ok {
		u.fail()
	}
	if isNumber(v) {
		return floatOf(v), true
	}
	s, ok := textOf(v)
	if !ok {
		return 0, false
	}
	s, ok = m.numeral(s)
	if !ok || !floatForm.MatchString(s) {
		return 0, false
	}
	sign := s[:len(s)-len(strings.TrimLeft(s, "+-"))]
	if s == sign+"nan" {
		return math.NaN(), true
	}
	f, _ := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64) // what is too large is infinite
	return f, true
}
