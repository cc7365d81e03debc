package jinja

import (
	"strings"
	"unicode/utf8"
)

// methodsOf returns the methods of a value's type by name.
func methodsOf(v Value) map[string]*builtin {
	switch v.(type) {
	case string, Markup:
		return stringMethods
	case *Dict:
		return dictMethods
	case *List, *Tuple, *Range:
		return sequenceMethods[typeName(v)]
	case *Cycler:
		return cyclerMethods
	case int, float64, bool:
		return numberMethods[typeName(v)]
	}
	return nil
}

// table indexes builtins by name.
func table(list ...*builtin) map[string]*builtin {
	t := map[string]*builtin{}
	for _, b := range list {
		t[b.name] = b
	}
	return t
}

var dictMethods = table(
	function("get", "self, key, default=None", func(m *machine, a []Value) Value {
		if v, ok := m.find(a[0].(*Dict), a[1]); ok {
			return v
		}
		return a[2]
	}),
	function("keys", "self", func(m *machine, a []Value) Value { return &View{a[0].(*Dict), "keys"} }),
	function("values", "self", func(m *machine, a []Value) Value { return &View{a[0].(*Dict), "values"} }),
	function("items", "self", func(m *machine, a []Value) Value { return &View{a[0].(*Dict), "items"} }),
	function("copy", "self", func(m *machine, a []Value) Value {
		d := a[0].(*Dict)
		m.reserveTimes(dictBytes, len(d.entries))
		return d.Copy()
	}),
	function("fromkeys", "self, iterable, value=None", func(m *machine, a []Value) Value {
		d := &Dict{}
		for _, k := range m.list(a[1]) {
			m.set(d, k, a[2])
		}
		return d
	}),
)

var sequenceMethods = map[string]map[string]*builtin{
	"list": table(countMethod, indexMethod, function("copy", "self", func(m *machine, a []Value) Value {
		return &List{a[0].(*List).items}
	})),
	"tuple": table(countMethod, indexMethod),
	"range": table(countMethod, indexMethod),
}

var countMethod = function("count", "self, value", func(m *machine, a []Value) Value {
	n := 0
	for _, x := range m.list(a[0]) {
		if m.alike(x, a[1]) {
			n++
		}
	}
	return n
})

var indexMethod = function("index", "self, value, start=0, stop=None", func(m *machine, a []Value) Value {
	items := m.list(a[0])
	lo, hi, _ := sliceBounds([3]Value{a[2], a[3], nil}, len(items))
	for i := lo; i < hi; i++ {
		if m.alike(items[i], a[1]) {
			return i
		}
	}
	raise(ValueError, "%s is not in %s", shortText(a[1]), typeName(a[0]))
	return nil
})

var numberMethods = map[string]map[string]*builtin{
	"float": table(function("is_integer", "self", func(m *machine, a []Value) Value {
		f := a[0].(float64)
		return f == float64(int(f))
	})),
	"int": table(bitLength), "bool": table(bitLength),
}

var bitLength = function("bit_length", "self", func(m *machine, a []Value) Value {
	b, _ := bigOf(a[0])
	return b.BitLen()
})

var cyclerMethods = table(
	function("next", "self", func(m *machine, a []Value) Value {
		c := a[0].(*Cycler)
		v := c.items[c.at]
		c.at = (c.at + 1) % len(c.items)
		return v
	}),
	function("reset", "self", func(m *machine, a []Value) Value {
		a[0].(*Cycler).at = 0
		return nil
	}),
)

// attribute returns one of the cycler's own, or false.
func (c *Cycler) attribute(id string) (Value, bool) {
	switch id {
	case "current":
		return c.items[c.at], true
	case "items":
		return &Tuple{items: c.items}, true
	case "pos":
		return c.at, true
	}
	return nil, false
}

// wantText returns the string that an argument must be.
func wantText(what string, v Value) string {
	s, ok := textOf(v)
	if !ok {
		raise(TypeError, "%s must be str, not %s", what, typeName(v))
	}
	return s
}

// splitLines returns the lines of s, with their ends if keep is set.
func splitLines(s string, keep bool) []string {
	var lines []string
	for s != "" {
		line, end, rest := cutLine(s)
		if keep {
			line = s[:len(line)+len(end)]
		}
		lines = append(lines, line)
		s = rest
	}
	return lines
}

// cutLine returns the first line of s, its end, and what is behind it.
func cutLine(s string) (line, end, rest string) {
	at := strings.IndexFunc(s, isLineEnd)
	if at < 0 {
		return s, "", ""
	}
	_, n := utf8.DecodeRuneInString(s[at:])
	if strings.HasPrefix(s[at:], "\r\n") {
		n = 2
	}
	return s[:at], s[at : at+n], s[at+n:]
}
