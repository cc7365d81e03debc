package jinja

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Numbers as Jinja writes them: digits may be grouped by underscores, a fraction
// needs digits on both sides of the point, and 007 is not a number but three.
var (
	floatPattern   = regexp.MustCompile(`^(?i:(\d+_)*\d+((\.(\d+_)*\d+)?e[+-]?(\d+_)*\d+|\.(\d+_)*\d+))`)
	integerPattern = regexp.MustCompile(`^(?i:0b(_?[01])+|0o(_?[0-7])+|0x(_?[0-9a-f])+|[1-9](_?\d)*|0(_?0)*)`)
	stringPattern  = regexp.MustCompile(`^(?s:'([^'\\]*(\\.[^'\\]*)*)'|"([^"\\]*(\\.[^"\\]*)*)")`)
)

// operators are tried in this order.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

var closers = map[string]string{"(": ")", "[": "]", "{": "}"}

// inside lexes a tag from behind its opening to its end. Brackets hide ends, so
// that {{ {'a': {}} }} is one tag.
func (l *lexer) inside(end kind) {
	var open []string // what closes the brackets that are open
	for l.pos < len(l.source) {
		rest := l.rest()
		if n := endOf(rest, end); n > 0 && len(open) == 0 {
			l.emit(end, "", nil)
			l.advance(n)
			return
		}
		if trimmed := strings.TrimLeftFunc(rest, isSpace); len(trimmed) < len(rest) {
			l.take(len(rest) - len(trimmed))
			continue
		}
		if l.literal(rest) {
			continue
		}
		op := operatorOf(rest)
		switch {
		case op == "":
			r, _ := utf8.DecodeRuneInString(rest)
			l.fail("unexpected char %s at %d", repr(string(r)), l.runePosition())
		case closers[op] != "":
			open = append(open, closers[op])
		case strings.Contains(")]}", op):
			if len(open) == 0 {
				l.fail("unexpected '%s'", op)
			}
			if want := open[len(open)-1]; want != op {
				l.fail("unexpected '%s', expected '%s'", op, want)
			}
			open = open[:len(open)-1]
		}
		l.emit(operator, op, nil)
		l.take(len(op))
	}
}

// endOf returns the length of a tag's end at the start of s, or 0.
func endOf(s string, end kind) int {
	mark, signed := "}}", byte(0)
	if end == blockEnd {
		mark = "%}"
	}
	at := 0
	if s != "" && (s[0] == '-' || s[0] == '+' && end == blockEnd) {
		at, signed = 1, s[0]
	}
	switch {
	case !strings.HasPrefix(s[at:], mark):
		return 0
	case end == printEnd && signed == 0:
		return 2
	}
	return at + closing(s[at:], signed)
}

// literal lexes a number, a name or a string, if there is one.
func (l *lexer) literal(rest string) bool {
	behindDot := l.pos > 0 && l.source[l.pos-1] == '.'
	if s := floatPattern.FindString(rest); s != "" && !behindDot {
		l.emit(floatToken, s, parseFloatLiteral(s))
		l.take(len(s))
		return true
	}
	if s := integerPattern.FindString(rest); s != "" {
		l.emit(integerToken, s, parseIntLiteral(s))
		l.take(len(s))
		return true
	}
	word := len(rest) - len(strings.TrimLeftFunc(rest, isWord))
	if word > 0 {
		if !isIdentifier(rest[:word]) {
			l.fail("Invalid character in identifier")
		}
		l.emit(nameToken, rest[:word], nil)
		l.take(word)
		return true
	}
	if s := stringPattern.FindString(rest); s != "" {
		l.emit(stringToken, s, unescape(s[1:len(s)-1]))
		l.take(len(s))
		return true
	}
	return false
}

func operatorOf(s string) string {
	for _, op := range operators {
		if strings.HasPrefix(s, op) {
			return op
		}
	}
	return ""
}

// isWord reports whether a character can stand in a name, in the sense of
// regular expressions.
func isWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
}

// isIdentifier reports whether s is a name in Python.
func isIdentifier(s string) bool {
	for i, r := range s {
		first := r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
		if !first && (i == 0 || !unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc)) {
			return false
		}
	}
	return s != ""
}
