package main

import (
	"regexp"
	"strings"
)

// macro is a function-like macro whose body declares kernels.
type macro struct {
	name   string
	params []string
	body   string
}

var (
	continued  = regexp.MustCompile(`\\[ \t]*\n`)
	definition = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)]*)\)(.*)$`)
	directive  = regexp.MustCompile(`(?m)^[ \t]*#.*$`)
	paste      = regexp.MustCompile(`\s*##\s*`)
)

// expand replaces the calls of macros that declare kernels by their bodies. It
// is enough of a preprocessor for instantiation lists: macros are expanded in
// the order of their definitions, and a macro may call those defined after it.
func expand(source string) string {
	source = continued.ReplaceAllString(source, " ")
	var macros []macro
	for _, m := range definition.FindAllStringSubmatch(source, -1) {
		params := strings.Split(m[2], ",")
		for i := range params {
			params[i] = strings.TrimSpace(params[i])
		}
		macros = append(macros, macro{m[1], params, m[3]})
	}
	source = directive.ReplaceAllString(source, "")
	for _, m := range macros {
		call := regexp.MustCompile(`\b` + m.name + `\s*\(([^()]*)\)`)
		source = call.ReplaceAllStringFunc(source, func(text string) string {
			return m.apply(strings.Split(call.FindStringSubmatch(text)[1], ","))
		})
	}
	return source
}

// apply returns the body for the given arguments; "##" joins what is around it.
func (m macro) apply(args []string) string {
	values := map[string]string{}
	for i, p := range m.params {
		if i < len(args) {
			values[p] = strings.TrimSpace(args[i])
		}
	}
	body := word.ReplaceAllStringFunc(m.body, func(w string) string {
		if v, ok := values[w]; ok {
			return v
		}
		return w
	})
	return paste.ReplaceAllString(body, "")
}

var word = regexp.MustCompile(`\w+`)
