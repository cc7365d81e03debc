package ordered

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// numbers are what Python writes where JSON has no number.
var numbers = []string{"NaN", "-Infinity", "Infinity"}

// FromPython returns text with what instead makes of NaN, Infinity and -Infinity, which Python
// writes for numbers that JSON does not have. A text without them is returned itself.
func FromPython(text []byte, instead func(number string) string) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return text
	}
	var out []byte
	inString := false
	for i := 0; i < len(text); i++ {
		if c := text[i]; inString && c == '\\' && i+1 < len(text) {
			out = append(out, c)
			i++
		} else if c == '"' {
			inString = !inString
		} else if number := numberAt(text[i:]); !inString && number != "" {
			out = append(out, instead(number)...)
			i += len(number) - 1
			continue
		}
		out = append(out, text[i])
	}
	return out
}

// numberAt returns which of the numbers the text begins with, or "".
func numberAt(text []byte) string {
	for _, n := range numbers {
		if bytes.HasPrefix(text, []byte(n)) {
			return n
		}
	}
	return ""
}

// Tagged is a number that JSON does not have as transformers 5 writes it; by an escape,
// which that does not write, Untagged knows it again.
func Tagged(number string) string {
	return fmt.Sprintf(`{"__float__": "\u%04x%s"}`, number[0], number[1:])
}

var tagged = regexp.MustCompile(`\{\s*"__float__":\s*"\\u00(4eaN|49nfinity|2dInfinity)"\s*\}`)

// Untagged returns text with the numbers that Tagged has replaced as they stood.
func Untagged(text []byte) []byte {
	return tagged.ReplaceAllFunc(text, func(tag []byte) []byte {
		for _, n := range numbers {
			if bytes.Contains(tag, []byte(n[1:])) {
				return []byte(n)
			}
		}
		return tag
	})
}

// Number returns the number that a value stands for, as of Tagged or of transformers, or "".
func Number(value []byte) string {
	var fields map[string]string
	if json.Unmarshal(value, &fields) != nil || len(fields) != 1 || !slices.Contains(numbers, fields["__float__"]) {
		return ""
	}
	return fields["__float__"]
}

// Null stands for a number that JSON does not have where numbers mean nothing.
func Null(string) string { return "null" }
