package job

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// escaped begins the text that stands in JSON for a name that is not UTF-8.
const escaped = "not UTF-8: "

// Escape returns a text that JSON can hold for the name of a file, which may be any
// bytes: the name itself if it is UTF-8.
func Escape(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, escaped) {
		return name
	}
	var b strings.Builder
	b.WriteString(escaped)
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if r == '%' || r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, "%%%02X", name[i])
		} else {
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	return b.String()
}

// Unescape returns the name that Escape has made a text of.
func Unescape(text string) string {
	rest, ok := strings.CutPrefix(text, escaped)
	if !ok {
		return text
	}
	name, err := url.PathUnescape(rest)
	if err != nil { // nobody has escaped it
		return text
	}
	return name
}
