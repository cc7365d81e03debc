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

// expand replaces the calls of macros by their bodies, and calls in these, too: it is enough of
// a preprocessor for instantiation lists.
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
	for range macros { // a body may have calls of any other, so many deep
		before := source
		for _, m := range macros {
			source = m.expand(source)
		}
		if source == before {
			break
		}
	}
	return source
}

// expand replaces the macro's calls.
func (m macro) expand(source string) string {
	call := regexp.MustCompile(`\b` + m.name + `\s*\(([^()]*)\)`)
	return call.ReplaceAllStringFunc(source, func(text string) string {
		return m.apply(strings.Split(call.FindStringSubmatch(text)[1], ","))
	})
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
