package jinja

import "strings"

var htmlFilters = table(
	function("escape", "s", func(m *machine, a []Value) Value { return m.escape(a[0]) }),
	function("e", "s", func(m *machine, a []Value) Value { return m.escape(a[0]) }),
	function("forceescape", "value", func(m *machine, a []Value) Value { return m.escape(m.text(a[0])) }),
	function("safe", "value", func(m *machine, a []Value) Value { return Markup(m.text(a[0])) }),
	function("striptags", "value", func(m *machine, a []Value) Value { return m.stripTags(m.text(a[0])) }),
	function("urlencode", "value", urlencode),
	function("urlize", "value, trim_url_limit=None, nofollow=False, target=None, rel=None, extra_schemes=None", urlize),
	function("xmlattr", "d, autospace=True", xmlattr),
)

// quoteURL escapes all but letters, digits, _.-~ and the safe characters; a space becomes
// what space says.
func (b *builder) quoteURL(v Value, safe, space string) {
	s := b.m.text(v)
	b.m.step(len(s) / 8)
	safe += "_.-~"
	b.grow(len(s))
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(safe, c) >= 0:
			b.write(s[i : i+1])
		case c == ' ':
			b.write(space)
		default:
			b.write("%")
			b.write(hexDigits[c>>4 : c>>4+1])
			b.write(hexDigits[c&15 : c&15+1])
		}
	}
}

const hexDigits = "0123456789ABCDEF"

func urlencode(m *machine, a []Value) Value {
	if _, ok := textOf(a[0]); ok || m.iterator(a[0]) == nil {
		b := builder{m: m}
		b.quoteURL(a[0], "/", "%20")
		return b.String()
	}
	pairs := a[0]
	if d, ok := pairs.(*Dict); ok {
		pairs = &View{d, "items"}
	}
	b := builder{m: m}
	for i, p := range m.list(pairs) {
		if i > 0 {
			b.write("&")
		}
		kv := m.unpack(p, 2)
		b.quoteURL(kv[0], "", "+")
		b.write("=")
		b.quoteURL(kv[1], "", "+")
	}
	return b.String()
}

func xmlattr(m *machine, a []Value) Value {
	d, ok := a[0].(*Dict)
	if u, missing := a[0].(*Undefined); missing {
		u.fail()
	}
	if !ok {
		raise(TypeError, "xmlattr: want a dict, have %s", typeName(a[0]))
	}
	b := builder{m: m}
	for _, e := range d.entries {
		m.step(1)
		if _, missing := e.value.(*Undefined); missing || e.value == nil {
			continue
		}
		key := m.text(e.key)
		m.step(len(key) / 16)
		if strings.ContainsAny(key, " \t\n\r\f\v/>=") {
			raise(ValueError, "Invalid character in attribute name: %s", repr(key))
		}
		if b.buffer != nil || truth(a[1]) {
			b.write(" ")
		}
		b.write(string(m.escape(key)))
		b.write(`="`)
		b.write(string(m.escape(e.value)))
		b.write(`"`)
	}
	if m.escaping {
		return Markup(b.String())
	}
	return b.String()
}
