package pattern

import (
	"fmt"
	"strings"
	"unicode"

	"exl2/infer/tokenizer/internal/chars"
)

// newline is what a dot does not match.
var newline = chars.Of('\n')

// setText writes a set for package regexp2.
func setText(s chars.Set) string {
	if r, ok := s.One(); ok {
		return fmt.Sprintf(`\x{%X}`, r)
	}
	open := "["
	if n := len(s); n > 0 && s[n-1].Hi == unicode.MaxRune {
		if s = s.Not(); len(s) == 0 {
			return `[\s\S]`
		}
		open = "[^"
	}
	if len(s) == 0 {
		return `(?!)`
	}
	var b strings.Builder
	b.WriteString(open)
	for _, r := range s {
		fmt.Fprintf(&b, `\x{%X}`, r.Lo)
		if r.Hi > r.Lo {
			fmt.Fprintf(&b, `-\x{%X}`, r.Hi)
		}
	}
	b.WriteString("]")
	return b.String()
}
