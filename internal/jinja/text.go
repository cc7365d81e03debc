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
		b.quoted(v)
	case Markup:
		b.write("Markup(")
		b.quoted(string(v))
		b.write(")")
	case Bytes:
		b.quotedBytes(string(v))
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
		b.write("<Macro ")
		b.quoted(v.name)
		b.write(">")
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

// repr returns a string as Python writes it in messages, where of a long one only
// the start is.
func repr(s string) string {
	const most = 1000
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return (&machine{limits: DefaultLimits}).repr(s)
}

// quoted writes a string as Python does.
func (b *builder) quoted(s string) {
	b.m.step(len(s) / 16)
	quote := quoteFor(s)
	b.grow(len(s) + 2)
	b.buffer.WriteByte(quote)
	start := 0
	for i, r := range s {
		escape := ""
		switch {
		case r == rune(quote) || r == '\\':
			escape = `\` + string(r)
		case r == utf8.RuneError: // may stand for a byte that is no character
			escape = string(r)
		case !isPrintable(r):
			escape = escapeRune(r)
		default:
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		b.write(s[start:i])
		b.write(escape)
		start = i + n
	}
	b.write(s[start:])
	b.write(string(rune(quote)))
}

// quotedBytes writes bytes as Python does.
func (b *builder) quotedBytes(s string) {
	b.m.step(len(s) / 16)
	quote := quoteFor(s)
	b.write("b" + string(rune(quote)))
	for i := range len(s) {
		switch c := s[i]; {
		case c == quote || c == '\\':
			b.write(`\` + string(rune(c)))
		case c >= ' ' && c < 0x7f:
			b.write(s[i : i+1])
		default:
			b.write(escapeRune(rune(c)))
		}
	}
	b.write(string(rune(quote)))
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
		return numbered(`\x`, r, 2)
	case r < 0x10000:
		return numbered(`\u`, r, 4)
	}
	return numbered(`\U`, r, 8)
}

// numbered returns an escape with so many hexadecimal digits.
func numbered(prefix string, r rune, digits int) string {
	const hex = "0123456789abcdef"
	b := append(make([]byte, 0, 10), prefix...)
	for i := digits - 1; i >= 0; i-- {
		b = append(b, hex[r>>(4*i)&15])
	}
	return string(b)
}

// isPrintable reports whether repr shows a character: all but the categories C
// and Z, and the space.
func isPrintable(r rune) bool {
	return r >= ' ' && r < 0x7f || unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
}

func runeCount(s string) int { return utf8.RuneCountInString(s) }
