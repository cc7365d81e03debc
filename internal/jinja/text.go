package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text returns what str does.
func (m *machine) text(v Value) string {
	if s, ok := textOf(v); ok {
		return s
	}
	if _, ok := v.(*Undefined); ok {
		return ""
	}
	return m.repr(v)
}

// repr returns what Python's repr does.
func (m *machine) repr(v Value) string {
	b := builder{m: m}
	b.repr(v)
	return b.String()
}

func (b *builder) repr(v Value) {
	b.m.step(1)
	b.m.enter()
	defer b.m.leave()
	switch v := v.(type) {
	case nil:
		b.write("None")
	case bool:
		b.write(boolText(v))
	case int:
		b.write(strconv.Itoa(v))
	case *big.Int:
		b.write(bigText(v))
	case float64:
		b.write(floatText(v))
	case string:
		b.write(repr(v))
	case Markup:
		b.write("Markup(" + repr(string(v)) + ")")
	case Bytes:
		b.write("b" + reprBytes(string(v)))
	case *List:
		b.sequence("[", v.items, "]")
	case *Tuple:
		b.tuple(v)
	case *Dict:
		b.dict(v)
	case *View:
		b.write(typeName(v) + "(")
		b.sequence("[", b.m.list(v), "]")
		b.write(")")
	case *Namespace:
		b.write("<Namespace ")
		b.dict(v.attributes)
		b.write(">")
	default:
		b.object(v)
	}
}

// object writes what is no container.
func (b *builder) object(v Value) {
	switch v := v.(type) {
	case *Range:
		if v.step == 1 {
			b.write(fmt.Sprintf("range(%d, %d)", v.start, v.stop))
		} else {
			b.write(fmt.Sprintf("range(%d, %d, %d)", v.start, v.stop, v.step))
		}
	case *Undefined:
		b.write("Undefined")
	case *Loop:
		b.write(v.String())
	case *Macro:
		b.write("<Macro " + repr(v.name) + ">")
	default:
		raise(Unsupported, "a %s has no text that is the same each time", typeName(v))
	}
}

// sequence writes elements between brackets.
func (b *builder) sequence(open string, items []Value, closed string) {
	b.write(open)
	for i, x := range items {
		if i > 0 {
			b.write(", ")
		}
		b.repr(x)
	}
	b.write(closed)
}

func (b *builder) tuple(t *Tuple) {
	if len(t.items) == 1 {
		b.sequence("(", t.items, ",)")
		return
	}
	b.sequence("(", t.items, ")")
}

func (b *builder) dict(d *Dict) {
	b.write("{")
	for i, e := range d.entries {
		if i > 0 {
			b.write(", ")
		}
		b.repr(e.key)
		b.write(": ")
		b.repr(e.value)
	}
	b.write("}")
}

func boolText(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// bigText returns the digits of an integer, of which Python writes only so many.
func bigText(b *big.Int) string {
	s := b.String()
	if len(s) > maxDigits+1 {
		raise(ValueError, "Exceeds the limit (%d digits) for integer string conversion", maxDigits)
	}
	return s
}

// floatText returns the shortest digits that read back as f, in exponent form
// below 1e-4 and from 1e16 on.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quoteFor returns the quote that repr puts around a string.
func quoteFor(s string) byte {
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return '"'
	}
	return '\''
}

// repr returns a string as Python writes it.
func repr(s string) string {
	quote := quoteFor(s)
	var b strings.Builder
	b.WriteByte(quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == ' ' || isPrintable(r):
			b.WriteRune(r)
		default:
			b.WriteString(escapeRune(r))
		}
	}
	b.WriteByte(quote)
	return b.String()
}

func reprBytes(s string) string {
	quote := quoteFor(s)
	var b strings.Builder
	b.WriteByte(quote)
	for i := range len(s) {
		switch c := s[i]; {
		case c == quote || c == '\\':
			b.WriteString(`\` + string(rune(c)))
		case c >= ' ' && c < 0x7f:
			b.WriteByte(c)
		default:
			b.WriteString(escapeRune(rune(c)))
		}
	}
	b.WriteByte(quote)
	return b.String()
}

// escapeRune returns Python's escape of a character.
func escapeRune(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// isPrintable reports whether repr shows a character: all but the categories C
// and Z, and the space.
func isPrintable(r rune) bool {
	return r == ' ' || unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
}

func runeCount(s string) int { return utf8.RuneCountInString(s) }
