package decode

import (
	"strings"
	"unicode/utf8"
)

// utf8Writer turns bytes into text. What is not UTF-8 becomes U+FFFD, one for
// each longest part that could begin a character, as WHATWG and Rust do it.
type utf8Writer struct{ held []byte }

// take returns the text of the bytes held so far, without the character that
// they may end within.
func (u *utf8Writer) take() string {
	n := len(u.held)
	for back := 1; back < utf8.UTFMax && back <= n; back++ {
		if tail := u.held[n-back:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				n -= back
			}
			break
		}
	}
	s := wellFormed(u.held[:n])
	u.held = append(u.held[:0], u.held[n:]...)
	return s
}

// rest returns the text of all bytes held.
func (u *utf8Writer) rest() string {
	s := wellFormed(u.held)
	u.held = u.held[:0]
	return s
}

// wellFormed returns bytes as text with U+FFFD for what is not UTF-8.
func wellFormed(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			for n < len(b) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}
