package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// A constant is an integer that a source defines for device code and that its
// launches need, too: the size of a tile, threads of a block.
type constant struct{ Name, Value string }

var (
	fileScope  = regexp.MustCompile(`(?m)^constexpr int ([^;]+);`)
	declarator = regexp.MustCompile(`^\s*([a-z]\w*)\s*=\s*(.+?)\s*$`)
	templated  = regexp.MustCompile(`(?m)^template <[^>]*>\s*constexpr int [^;]+;`)
	arithmetic = regexp.MustCompile(`^[\w\s+\-*/%()<>&|]+$`)
)

// constants finds the integer constants of a source's outermost scope. Their Go
// names begin with the source's; their values are expressions of numbers and of
// constants before them, in the source or in headers, whose Go names are given.
func constants(source, text string, headers map[string]string) ([]constant, error) {
	text = templated.ReplaceAllString(lineComment.ReplaceAllString(text, ""), "")
	var list []constant
	known := maps.Clone(headers)
	for _, m := range fileScope.FindAllStringSubmatch(text, -1) {
		for _, d := range strings.Split(m[1], ",") {
			parts := declarator.FindStringSubmatch(d)
			if parts == nil || !arithmetic.MatchString(parts[2]) {
				return nil, fmt.Errorf("constant %q is no integer expression that launchers can read", strings.TrimSpace(d))
			}
			value := word.ReplaceAllStringFunc(parts[2], func(w string) string {
				return cmp.Or(known[w], w)
			})
			known[parts[1]] = source + "_" + parts[1]
			list = append(list, constant{known[parts[1]], value})
		}
	}
	return list, nil
}
