package pattern

import (
	"testing"
	"unicode/utf8"
)

// FuzzPattern: no regular expression makes the translation panic, nor what it
// writes fail to compile.
func FuzzPattern(f *testing.F) {
	for _, expr := range []string{`'s|'t| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, `[^(\s|[.,!?])]+`, `(?i:'s|[a-c&&b])++`, `\p{^Han}{2,3}?|\x{41}(?<=a)(?!b)(?>c)`, `(?x: a # b`, `[[:^alpha:]-z]`} {
		f.Add(expr, "a 'S b1")
	}
	f.Fuzz(func(t *testing.T, expr, text string) {
		re, err := Compile(expr)
		if err != nil || len(text) > 64 || !utf8.ValidString(text) {
			return
		}
		done := 0
		re.Find(nil, text, func(start, end int) {
			if start < done || end < start || end > len(text) {
				t.Fatalf("%q in %q: match [%d, %d) after %d", expr, text, start, end, done)
			}
			done = end
		})
	})
}
