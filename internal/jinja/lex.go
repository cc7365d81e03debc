package jinja

import (
	"strings"
	"unicode/utf8"
)

// A lexer cuts a template into tokens. Whitespace control is all its business:
// what trim_blocks, lstrip_blocks and the signs + and - remove never becomes a
// token.
type lexer struct {
	source    string
	pos       int
	line      int
	lineStart bool // nothing but removed text since the last newline
	tokens    []token
}

// lex returns the tokens of a template. An error is its last token.
func lex(source string) []token {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	l := &lexer{source: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	l.run()
	return l.tokens
}

// run lexes everything.
func (l *lexer) run() {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(*failure)
			if !ok {
				panic(r)
			}
			l.emit(badToken, "", f)
		}
		l.emit(endOfTemplate, "", nil)
	}()
	for {
		at := l.opener()
		if at < 0 {
			l.text(l.source[l.pos:], 0, false)
			return
		}
		l.tag(at)
	}
}

func (l *lexer) emit(k kind, text string, value Value) {
	l.tokens = append(l.tokens, token{k, l.line, text, value})
}

func (l *lexer) fail(format string, args ...any) {
	raise(SyntaxError, format, args...)
}

// rest returns what is not lexed yet.
func (l *lexer) rest() string { return l.source[l.pos:] }

// take moves over n bytes and returns them.
func (l *lexer) take(n int) string {
	s := l.source[l.pos : l.pos+n]
	l.pos += n
	l.line += strings.Count(s, "\n")
	return s
}

// opener returns where the next tag begins, or -1.
func (l *lexer) opener() int {
	for at := l.pos; ; at++ {
		i := strings.IndexByte(l.source[at:], '{')
		if i < 0 || at+i+1 >= len(l.source) {
			return -1
		}
		at += i
		if strings.IndexByte("{%#", l.source[at+1]) >= 0 {
			return at
		}
	}
}

// tag lexes the text in front of a tag and the tag.
func (l *lexer) tag(at int) {
	open, signed := l.source[at+1], byte(0)
	if rest := l.source[at+2:]; rest != "" && (rest[0] == '-' || rest[0] == '+') {
		signed = rest[0]
	}
	if n := rawTag(l.source[at:], "raw", false); open == '%' && n > 0 {
		l.text(l.source[l.pos:at], signed, true)
		l.advance(n)
		l.raw()
		return
	}
	l.text(l.source[l.pos:at], signed, open != '{')
	n := 2
	if signed != 0 {
		n = 3
	}
	l.lineStart = false
	switch open {
	case '#':
		l.take(n)
		l.comment()
	case '{':
		l.emit(printBegin, "", nil)
		l.take(n)
		l.inside(printEnd)
	default:
		l.emit(blockBegin, "", nil)
		l.take(n)
		l.inside(blockEnd)
	}
}

// advance moves over the end of a tag, n bytes with the whitespace that goes
// with it.
func (l *lexer) advance(n int) {
	l.lineStart = strings.HasSuffix(l.take(n), "\n")
}

// text emits the data in front of a tag without what the tag's sign, or
// lstrip_blocks, removes, and moves over all of it.
func (l *lexer) text(s string, signed byte, strips bool) {
	kept := s
	switch {
	case signed == '-':
		kept = strings.TrimRightFunc(s, isSpace)
	case signed == 0 && strips:
		line := strings.LastIndexByte(s, '\n') + 1
		if (line > 0 || l.lineStart) && strings.TrimRightFunc(s[line:], isSpace) == "" {
			kept = s[:line]
		}
	}
	if kept != "" {
		l.emit(data, kept, nil)
	}
	l.take(len(s))
}

// comment moves over a comment that has begun, behind which there may be nothing.
func (l *lexer) comment() {
	end := strings.Index(l.rest(), "#}")
	if l.rest() == "" {
		return
	}
	if end < 0 {
		l.fail("Missing end of comment tag")
	}
	signed := byte(0)
	if end > 0 {
		signed = l.rest()[end-1]
	}
	l.advance(end + closing(l.rest()[end:], signed))
}

// raw emits the data up to the end of a raw block, behind whose beginning there may be nothing.
func (l *lexer) raw() {
	if l.rest() == "" {
		return
	}
	for at := l.pos; ; at++ {
		i := strings.Index(l.source[at:], "{%")
		if i < 0 {
			l.fail("Missing end of raw directive")
		}
		at += i
		n := rawTag(l.source[at:], "endraw", true)
		if n == 0 {
			continue
		}
		signed := l.source[at+2]
		if signed != '-' && signed != '+' {
			signed = 0
		}
		l.text(l.source[l.pos:at], signed, true)
		l.advance(n)
		return
	}
}

// rawTag returns the length of a raw or endraw tag at the start of s with the
// whitespace that it removes behind it, or 0. Only the end of the block trims a
// newline and knows the sign +.
func rawTag(s, name string, end bool) int {
	rest := strings.TrimPrefix(s, "{%")
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		rest = rest[1:]
	}
	rest, ok := strings.CutPrefix(strings.TrimLeftFunc(rest, isSpace), name)
	if !ok {
		return 0
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	head := len(s) - len(rest)
	switch {
	case strings.HasPrefix(rest, "-%}"):
		return head + 1 + closing(rest[1:], '-')
	case strings.HasPrefix(rest, "+%}") && end:
		return head + 3
	case strings.HasPrefix(rest, "%}") && end:
		return head + closing(rest, 0)
	case strings.HasPrefix(rest, "%}"):
		return head + 2
	}
	return 0
}

// closing returns the length of the two bytes that end a block or comment at the
// start of s, with the whitespace that is removed behind them: all after the sign
// -, none after +, else one newline.
func closing(s string, signed byte) int {
	switch {
	case signed == '-':
		return len(s) - len(strings.TrimLeftFunc(s[2:], isSpace))
	case signed != '+' && strings.HasPrefix(s[2:], "\n"):
		return 3
	}
	return 2
}

// runePosition returns how many characters are in front of the lexer.
func (l *lexer) runePosition() int { return utf8.RuneCountInString(l.source[:l.pos]) }
