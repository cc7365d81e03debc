package jinja

import (
	"slices"
	"strings"
)

var splitMethods = table(
	function("split", "self, sep=None, maxsplit=-1", func(m *machine, a []Value) Value {
		return m.split(a, false)
	}),
	function("rsplit", "self, sep=None, maxsplit=-1", func(m *machine, a []Value) Value {
		return m.split(a, true)
	}),
	function("splitlines", "self, keepends=False", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		m.step(len(s) / 16)
		m.reserveTimes(2*valueBytes, 1+countFunc(s, isLineEnd))
		return m.texts(a[0], splitLines(s, truth(a[1])))
	}),
	function("partition", "self, sep", func(m *machine, a []Value) Value {
		return m.partition(a, false)
	}),
	function("rpartition", "self, sep", func(m *machine, a []Value) Value {
		return m.partition(a, true)
	}),
	stripping("strip", true, true), stripping("lstrip", true, false), stripping("rstrip", false, true),
)

// stripping makes a method that removes a set of characters, or whitespace, at
// the ends.
func stripping(name string, left, right bool) *builtin {
	return function(name, "self, chars=None", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		m.step(len(s) / 64)
		remove := isSpace
		if a[1] != nil {
			set, ok := textOf(a[1])
			if !ok {
				raise(TypeError, "%s arg must be None or str", name)
			}
			m.step(len(set) * min(len(s), 1+len(s)/16))
			remove = func(r rune) bool { return strings.ContainsRune(set, r) }
		}
		if left {
			s = strings.TrimLeftFunc(s, remove)
		}
		if right {
			s = strings.TrimRightFunc(s, remove)
		}
		return sameKind(a[0], s)
	})
}

// texts returns a list of strings, of the type of another.
func (m *machine) texts(like Value, parts []string) *List {
	m.step(len(parts))
	l := &List{make([]Value, len(parts))}
	for i, p := range parts {
		l.items[i] = sameKind(like, p)
	}
	return l
}

// split cuts a string at a separator, or at whitespace, from one end.
func (m *machine) split(a []Value, fromEnd bool) Value {
	cut := fields
	if fromEnd {
		cut = lastFields
	}
	s, _ := textOf(a[0])
	most := wantInt(a[2])
	if most < 0 {
		most = len(s) + 1
	}
	m.step(1 + len(s)/16)
	if a[1] == nil {
		m.reserveTimes(2*valueBytes, min(most, 1+countFunc(s, isSpace)))
		return m.texts(a[0], cut(s, most))
	}
	sep := wantText("the separator of split()", a[1])
	if sep == "" {
		raise(ValueError, "empty separator")
	}
	m.reserveTimes(2*valueBytes, min(most, 1+m.count(s, sep)))
	f := m.finder(s, sep, fromEnd)
	var parts []string
	for most > 0 {
		at := f.index(s)
		if at < 0 {
			break
		}
		if fromEnd {
			parts = append(parts, s[at+len(sep):])
			s = s[:at]
		} else {
			parts = append(parts, s[:at])
			s = s[at+len(sep):]
		}
		most--
	}
	parts = append(parts, s)
	if fromEnd {
		slices.Reverse(parts)
	}
	return m.texts(a[0], parts)
}

// countFunc returns how many characters of s f is true of.
func countFunc(s string, f func(rune) bool) int {
	n := 0
	for _, r := range s {
		if f(r) {
			n++
		}
	}
	return n
}

// fields cuts at runs of whitespace, at most so often; the rest keeps its end.
func fields(s string, most int) []string {
	var parts []string
	s = strings.TrimLeftFunc(s, isSpace)
	for s != "" {
		end := strings.IndexFunc(s, isSpace)
		if len(parts) == most || end < 0 {
			return append(parts, s)
		}
		parts = append(parts, s[:end])
		s = strings.TrimLeftFunc(s[end:], isSpace)
	}
	return parts
}

// lastFields is fields from the end.
func lastFields(s string, most int) []string {
	var parts []string
	s = strings.TrimRightFunc(s, isSpace)
	for s != "" {
		rest := strings.TrimRightFunc(s, func(r rune) bool { return !isSpace(r) })
		if len(parts) == most || rest == "" {
			parts = append(parts, s)
			break
		}
		parts = append(parts, s[len(rest):])
		s = strings.TrimRightFunc(rest, isSpace)
	}
	slices.Reverse(parts)
	return parts
}

// partition cuts a string in three at a separator; last says where all goes if
// there is none.
func (m *machine) partition(a []Value, last bool) Value {
	s, _ := textOf(a[0])
	sep := wantText("the separator of partition()", a[1])
	if sep == "" {
		raise(ValueError, "empty separator")
	}
	parts := []string{s, "", ""}
	if last {
		parts = []string{"", "", s}
	}
	if at := m.finder(s, sep, last).index(s); at >= 0 {
		parts = []string{s[:at], sep, s[at+len(sep):]}
	}
	return &Tuple{items: m.texts(a[0], parts).items}
}
