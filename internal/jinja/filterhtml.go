package jinja

import (
	"fmt"
	"regexp"
	"strings"
)

var htmlFilters = table(
	function("escape", "s", func(m *machine, a []Value) Value { return m.escape(a[0]) }),
	function("e", "s", func(m *machine, a []Value) Value { return m.escape(a[0]) }),
	function("forceescape", "value", func(m *machine, a []Value) Value { return m.escape(m.text(a[0])) }),
	function("safe", "value", func(m *machine, a []Value) Value { return Markup(m.text(a[0])) }),
	function("striptags", "value", func(m *machine, a []Value) Value {
		s := m.text(a[0])
		m.step(1 + len(s)/16)
		return stripTags(s)
	}),
	function("urlencode", "value", urlencode),
	function("urlize", "value, trim_url_limit=None, nofollow=False, target=None, rel=None, extra_schemes=None", urlize),
	function("xmlattr", "d, autospace=True", xmlattr),
)

// quoteURL escapes all but letters, digits, _.-~ and the safe characters.
func (m *machine) quoteURL(v Value, safe string) string {
	s := m.text(v)
	m.reserve(3 * len(s))
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~"+safe, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func urlencode(m *machine, a []Value) Value {
	if _, ok := textOf(a[0]); ok || m.iterator(a[0]) == nil {
		return m.quoteURL(a[0], "/")
	}
	pairs := a[0]
	if d, ok := pairs.(*Dict); ok {
		pairs = &View{d, "items"}
	}
	var parts []string
	for _, p := range m.list(pairs) {
		kv := m.unpack(p, 2)
		parts = append(parts, strings.ReplaceAll(m.quoteURL(kv[0], "")+"="+m.quoteURL(kv[1], ""), "%20", "+"))
	}
	return strings.Join(parts, "&")
}

func xmlattr(m *machine, a []Value) Value {
	d, ok := a[0].(*Dict)
	if u, missing := a[0].(*Undefined); missing {
		u.fail()
	}
	if !ok {
		raise(TypeError, "xmlattr: want a dict, have %s", typeName(a[0]))
	}
	var parts []string
	for _, e := range d.entries {
		if _, missing := e.value.(*Undefined); missing || e.value == nil {
			continue
		}
		key := m.text(e.key)
		if strings.ContainsAny(key, " \t\n\r\f\v/>=") {
			raise(ValueError, "Invalid character in attribute name: %s", repr(key))
		}
		parts = append(parts, fmt.Sprintf(`%s="%s"`, m.escape(key), m.escape(e.value)))
	}
	s := strings.Join(parts, " ")
	if truth(a[1]) && s != "" {
		s = " " + s
	}
	if m.escaping {
		return Markup(s)
	}
	return s
}

var (
	wordPattern = regexp.MustCompile(`\s+|\S+`)
	urlPattern  = regexp.MustCompile(`^(?i:(https?://|www\.)([^\s<>/"']+))[^\s<>"']*$`)
)

// urlize turns the addresses in a text into links.
func urlize(m *machine, a []Value) Value {
	if a[1] != nil || truth(a[2]) || a[3] != nil || a[4] != nil || a[5] != nil {
		raise(Unsupported, "arguments of the filter urlize")
	}
	s := string(m.escape(a[0]))
	m.reserve(4 * len(s))
	var b strings.Builder
	for _, word := range wordPattern.FindAllString(s, -1) {
		head := word[:len(word)-len(strings.TrimLeft(word, "(&lt;"))]
		middle := strings.TrimRight(word[len(head):], ")>.,\n")
		tail := word[len(head)+len(middle):]
		switch {
		case !urlPattern.MatchString(middle):
			b.WriteString(word)
			continue
		case strings.HasPrefix(strings.ToLower(middle), "www."):
			fmt.Fprintf(&b, `%s<a href="https://%s" rel="noopener">%s</a>%s`, head, middle, middle, tail)
		default:
			fmt.Fprintf(&b, `%s<a href="%s" rel="noopener">%s</a>%s`, head, middle, middle, tail)
		}
	}
	if m.escaping {
		return Markup(b.String())
	}
	return b.String()
}
