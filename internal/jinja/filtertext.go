package jinja

import (
	"strings"
	"unicode/utf8"
)

var textFilters = table(
	textMapping("upper", upper), textMapping("lower", lower), textMapping("capitalize", capitalize),
	function("title", "s", func(m *machine, a []Value) Value {
		return m.mapped(m.text(a[0]), titleWords)
	}),
	function("string", "s", func(m *machine, a []Value) Value { return m.softText(a[0]) }),
	function("trim", "value, chars=None", func(m *machine, a []Value) Value {
		return m.callBuiltin(stringMethods["strip"], []Value{m.softText(a[0]), a[1]}, nil)
	}),
	function("center", "value, width=80", func(m *machine, a []Value) Value {
		return m.callBuiltin(stringMethods["center"], []Value{m.softText(a[0]), a[1]}, nil)
	}),
	function("replace", "s, old, new, count=None", func(m *machine, a []Value) Value {
		count := -1
		if a[3] != nil {
			count = wantInt(a[3])
		}
		return m.replace(m.text(a[0]), m.text(a[1]), m.text(a[2]), count)
	}),
	function("format", "value, *args, **kwargs", func(m *machine, a []Value) Value {
		args, named := a[1].(*Tuple), a[2].(*Dict)
		switch {
		case len(args.items) > 0 && len(named.entries) > 0:
			raise(ArgumentError, "can't handle positional and keyword arguments at the same time")
		case len(named.entries) > 0:
			return m.percent(m.softText(a[0]), named)
		}
		return m.percent(m.softText(a[0]), args)
	}),
	function("indent", "s, width=4, first=False, blank=False", func(m *machine, a []Value) Value {
		by, ok := textOf(a[1])
		if !ok {
			by = m.padded("", " ", wantInt(a[1]), "", 0)
		}
		s, _ := textOf(m.arithmetic("+", a[0], "\n"))
		return sameKind(a[0], m.indent(s, by, truth(a[2]), truth(a[3])))
	}),
	function("truncate", `s, length=255, killwords=False, end="...", leeway=None`, truncate),
	function("wordwrap", "s, width=79, break_long_words=True, wrapstring=None, break_on_hyphens=True", wordwrap),
	function("wordcount", "s", func(m *machine, a []Value) Value {
		s := m.text(a[0])
		m.step(len(s) / 16)
		return countWords(s)
	}),
)

// countWords returns how many runs of characters of words s has.
func countWords(s string) int {
	n, inside := 0, false
	for _, r := range s {
		if word := isWord(r); word != inside {
			inside = word
			if word {
				n++
			}
		}
	}
	return n
}

// titleWords capitalizes what begins behind blanks, hyphens and brackets.
func titleWords(s string) string {
	isBreak := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
	var b strings.Builder
	b.Grow(len(s))
	for s != "" {
		start := strings.IndexFunc(s, func(r rune) bool { return !isBreak(r) })
		if start < 0 {
			start = len(s)
		}
		b.WriteString(s[:start])
		s = s[start:]
		end := strings.IndexFunc(s, isBreak)
		if end < 0 {
			end = len(s)
		}
		first, n := utf8.DecodeRuneInString(s)
		if end > 0 {
			b.WriteString(upperRune(first))
			b.WriteString(lower(s[n:end]))
		}
		s = s[end:]
	}
	return b.String()
}

// indent puts a text in front of every line but empty ones, and but the first.
func (m *machine) indent(s, by string, first, blank bool) string {
	m.step(len(s) / 16)
	b := builder{m: m}
	b.grow(len(s))
	for i := 0; s != ""; i++ {
		var line string
		line, _, s = cutLine(s)
		if i > 0 {
			b.write("\n")
		}
		if i > 0 && (blank || line != "") || i == 0 && first {
			b.write(by)
		}
		b.write(line)
	}
	return b.String()
}

func truncate(m *machine, a []Value) Value {
	text, _ := textOf(a[0])
	m.step(len(text) / 16)
	length, end := wantInt(a[1]), wantText("the end of truncate()", a[3])
	leeway := 5
	if a[4] != nil {
		leeway = wantInt(a[4])
	}
	if length < runeCount(end) || leeway < 0 {
		raise(RuntimeError, "truncate: length %d, want at least %d", length, runeCount(end))
	}
	if wantLength(a[0]) <= length+leeway {
		return a[0]
	}
	s, isText := textOf(a[0])
	if !isText {
		raise(TypeError, "truncate: want a string, have %s", typeName(a[0]))
	}
	s = runeSlice(s, 0, length-runeCount(end))
	if !truth(a[2]) {
		if i := strings.LastIndexByte(s, ' '); i >= 0 {
			s = s[:i]
		}
	}
	return m.arithmetic("+", sameKind(a[0], s), end)
}

// wantLength returns what len does, or raises.
func wantLength(v Value) int {
	n, ok := length(v)
	if !ok {
		raise(TypeError, "object of type '%s' has no len()", typeName(v))
	}
	return n
}

// length returns what len does, or raises, and counts the characters it looks at.
func (m *machine) length(v Value) int {
	s, _ := textOf(v)
	m.step(len(s) / 64)
	return wantLength(v)
}
