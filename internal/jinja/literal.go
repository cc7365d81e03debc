package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/runenames"
)

// parseFloatLiteral reads a float as floatPattern has found it. Like Python it
// takes what is too large as infinite.
func parseFloatLiteral(s string) float64 {
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		raise(SyntaxError, "bad number %s", s)
	}
	return f
}

// parseIntLiteral reads an integer as integerPattern has found it.
func parseIntLiteral(s string) Value {
	m := &machine{limits: DefaultLimits}
	v, ok := m.parseInt(s, 0)
	if !ok {
		raise(SyntaxError, "bad number %.40s", s)
	}
	return v
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape reads the escapes in a string literal. Those that Python does not
// know stay as they are.
func unescape(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		text, n := escape(s[i+1:])
		b.WriteString(text)
		s = s[i+1+n:]
	}
}

// escape returns what a backslash in front of s means and how much of s belongs
// to it.
func escape(s string) (text string, n int) {
	c := s[0]
	if text, ok := simpleEscapes[c]; ok {
		return text, 1
	}
	switch {
	case c >= '0' && c <= '7':
		n := 1
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(s[:n], 8, 32)
		return string(rune(v)), n
	case c == 'x':
		return hexEscape(s, 2)
	case c == 'u':
		return hexEscape(s, 4)
	case c == 'U':
		return hexEscape(s, 8)
	case c == 'N':
		return nameEscape(s)
	case c >= utf8.RuneSelf: // Jinja escapes the character before Python reads the text
		r, n := utf8.DecodeRuneInString(s)
		return "\\" + strings.TrimPrefix(escapeRune(r), "\\"), n
	}
	return "\\" + s[:1], 1
}

// hexEscape reads the digits behind a letter. Half a surrogate pair becomes
// U+FFFD: no text that a tokenizer takes can hold it.
func hexEscape(s string, digits int) (string, int) {
	if len(s) > digits {
		if v, err := strconv.ParseUint(s[1:1+digits], 16, 32); err == nil && v <= utf8.MaxRune {
			return string(rune(v)), 1 + digits
		}
	}
	raise(SyntaxError, "bad escape \\%.10s in a string", s)
	return "", 0
}

// nameEscape reads \N{NAME}, without the backslash.
func nameEscape(s string) (string, int) {
	if end := strings.IndexByte(s, '}'); end > 2 && s[1] == '{' {
		name := strings.ToUpper(s[2:end])
		for r := rune(0); r <= utf8.MaxRune; r++ {
			if runenames.Name(r) == name {
				return string(r), end + 1
			}
		}
	}
	raise(SyntaxError, "unknown character name in \\%.40s", s)
	return "", 0
}
