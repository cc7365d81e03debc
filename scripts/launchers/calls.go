package main

import (
	"maps"
	"regexp"
)

var (
	function = regexp.MustCompile(`\b(\w+)\s*\([^;{}]*\)[\w\s]*\{`)
	call     = regexp.MustCompile(`\b(\w+)\s*(?:<[^;(){}]*>)?\s*\(`)
)

// waits reports for every function of an expanded source whether it, or one that
// it calls, calls after_previous or wait_for_previous, or one of its headers' functions that do: whether a kernel of that name
// may be started while the one before it finishes (kernels/order.cuh).
func waits(source string, headers map[string]bool) map[string]bool {
	bodies := map[string][]string{} // what each function calls; overloads together
	for _, at := range function.FindAllStringSubmatchIndex(source, -1) {
		name := source[at[2]:at[3]]
		for _, c := range call.FindAllStringSubmatch(source[at[1]:bodyEnd(source, at[1])], -1) {
			bodies[name] = append(bodies[name], c[1])
		}
	}
	found := map[string]bool{"after_previous": true, "wait_for_previous": true}
	maps.Copy(found, headers)
	for grown := true; grown; {
		grown = false
		for name, calls := range bodies {
			for _, c := range calls {
				if found[c] && !found[name] {
					found[name], grown = true, true
				}
			}
		}
	}
	return found
}

// bodyEnd returns where the braces close that were opened before at.
func bodyEnd(source string, at int) int {
	for depth := 1; at < len(source); at++ {
		switch source[at] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return at
			}
		}
	}
	return at
}
