package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Valid returns a text as tokenizers read it: each byte that is none of a character of UTF-8 is U+FFFD.
func Valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text { // utf8.RuneError, a byte at a time, of what is none
		b.WriteRune(r)
	}
	return b.String()
}
