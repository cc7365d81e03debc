package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// mapping makes a method that turns a string into another, HTML into HTML.
func mapping(name string, f func(string) string) *builtin {
	return function(name, "self", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		return sameKind(a[0], m.mapped(s, f))
	})
}

// mapped returns f of a text, which may be three times as long and is not made in one
// piece.
func (m *machine) mapped(s string, f func(string) string) string {
	m.step(len(s) / 2)
	m.reserve(4 * len(s))
	return f(s)
}

// asking makes a method that tells something of a string.
func asking(name string, f func(string) bool) *builtin {
	return function(name, "self", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		m.step(len(s) / 8)
		return f(s)
	})
}

// stringMethods are the methods of strings by name.
var stringMethods map[string]*builtin

func init() { // str.format reads attributes, which may be methods
	stringMethods = merge(caseMethods, searchMethods, splitMethods, padMethods, askMethods, table(
		function("encode", `self, encoding="utf-8", errors="strict"`, func(m *machine, a []Value) Value {
			s, _ := textOf(a[0])
			if e := wantText("encode() argument 'encoding'", a[1]); e != "utf-8" && e != "utf8" && e != "UTF-8" {
				raise(Unsupported, "encoding %s", repr(e))
			}
			m.reserve(len(s))
			return Bytes(s)
		}),
		function("format", "self, *args, **kwargs", func(m *machine, a []Value) Value {
			return m.format(a[0], a[1].(*Tuple).items, a[2].(*Dict))
		}),
		function("format_map", "self, mapping", func(m *machine, a []Value) Value {
			d, ok := a[1].(*Dict)
			if !ok {
				raise(TypeError, "format_map() wants a mapping, not %s", typeName(a[1]))
			}
			return m.format(a[0], nil, d)
		}),
		function("join", "self, iterable", stringJoin),
	))
}

var askMethods = table(
	asking("isalpha", func(s string) bool { return all(s, unicode.IsLetter) }),
	asking("isalnum", func(s string) bool {
		return all(s, func(r rune) bool { return unicode.IsLetter(r) || isNumeric(r) })
	}),
	asking("isdecimal", func(s string) bool { return all(s, func(r rune) bool { return unicode.Is(unicode.Nd, r) }) }),
	asking("isdigit", func(s string) bool { return all(s, isDigit) }),
	asking("isnumeric", func(s string) bool { return all(s, isNumeric) }),
	asking("isspace", func(s string) bool { return all(s, isSpace) }),
	asking("isprintable", func(s string) bool { return s == "" || all(s, isPrintable) }),
	asking("isascii", func(s string) bool { return s == "" || all(s, func(r rune) bool { return r < utf8.RuneSelf }) }),
	asking("isidentifier", isIdentifier),
	asking("istitle", isTitle),
	asking("isupper", func(s string) bool { return casedAs(s, isUpper, isLower) }),
	asking("islower", func(s string) bool { return casedAs(s, isLower, isUpper) }),
)

var caseMethods = table(
	mapping("upper", upper), mapping("lower", lower), mapping("title", title), mapping("capitalize", capitalize),
	mapping("swapcase", swapcase), mapping("casefold", casefold),
)

func merge(tables ...map[string]*builtin) map[string]*builtin {
	all := map[string]*builtin{}
	for _, t := range tables {
		for k, b := range t {
			all[k] = b
		}
	}
	return all
}

func stringJoin(m *machine, a []Value) Value {
	separator, _ := textOf(a[0])
	items := m.list(a[1])
	m.reserveTimes(valueBytes, len(items))
	texts := make([]string, len(items))
	for i, v := range items {
		s, ok := textOf(v)
		switch {
		case isMarkup(a[0]):
			s = string(m.escape(v))
		case !ok:
			raise(TypeError, "sequence item %d: expected str instance, %s found", i, typeName(v))
		}
		texts[i] = s
	}
	return sameKind(a[0], m.joined(separator, texts))
}

// Where a method looks: self[start:end], in characters.
func window(m *machine, a []Value) (s string, lo, hi int) {
	s, _ = textOf(a[0])
	m.step(1 + len(s)/64)
	lo, hi, _ = sliceBounds([3]Value{a[2], a[3], nil}, runeCount(s))
	return s, lo, hi
}

// finding makes a method that looks for a text in a window of the string.
func finding(name string, last bool) *builtin {
	return function(name, "self, sub, start=None, end=None", func(m *machine, a []Value) Value {
		text := wantText(name+"() argument 1", a[1])
		s, lo, hi := window(m, a)
		n := runeCount(s)
		at := -1
		if start, _ := intOf(a[2]); lo <= hi && (a[2] == nil || start <= n) {
			part := runeSlice(s, lo, hi)
			if i := m.finder(part, text, last).index(part); i >= 0 {
				at = lo + runeCount(part[:i])
			}
		}
		if at < 0 && strings.HasSuffix(name, "index") {
			raise(ValueError, "substring not found")
		}
		return at
	})
}

// affix makes a method that looks for one of some texts at an end.
func affix(name string, has func(s, text string) bool) *builtin {
	return function(name, "self, texts, start=None, end=None", func(m *machine, a []Value) Value {
		texts := []Value{a[1]}
		if t, ok := a[1].(*Tuple); ok {
			texts = t.items
		}
		s, lo, hi := window(m, a)
		if a[2] != nil || a[3] != nil {
			if lo > hi {
				return false
			}
			s = runeSlice(s, lo, hi)
		}
		for _, t := range texts {
			text, ok := textOf(t)
			if !ok {
				raise(TypeError, "%s first arg must be str or a tuple of str, not %s", name, typeName(t))
			}
			m.step(1 + min(len(s), len(text))/64)
			if has(s, text) {
				return true
			}
		}
		return false
	})
}

var searchMethods = table(
	finding("find", false), finding("rfind", true), finding("index", false), finding("rindex", true),
	affix("startswith", strings.HasPrefix), affix("endswith", strings.HasSuffix),
	function("count", "self, sub, start=None, end=None", func(m *machine, a []Value) Value {
		text := wantText("count() argument 1", a[1])
		s, lo, hi := window(m, a)
		if lo > hi {
			return 0
		}
		return m.count(runeSlice(s, lo, hi), text)
	}),
	function("replace", "self, old, new, count=-1", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		old := wantText("replace() argument 1", a[1])
		with := wantText("replace() argument 2", a[2])
		if isMarkup(a[0]) {
			with = string(m.escape(a[2]))
		}
		return sameKind(a[0], m.replace(s, old, with, wantInt(a[3])))
	}),
	function("removeprefix", "self, prefix", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		m.step(len(s) / 64)
		return sameKind(a[0], strings.TrimPrefix(s, wantText("removeprefix() argument", a[1])))
	}),
	function("removesuffix", "self, suffix", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		m.step(len(s) / 64)
		return sameKind(a[0], strings.TrimSuffix(s, wantText("removesuffix() argument", a[1])))
	}),
)
