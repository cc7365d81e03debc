package jinja

import (
	"html"
	"strings"
)

// htmlEscapes are the characters that escaping replaces.
var htmlEscapes = []string{"&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;"}

var escaper = strings.NewReplacer(htmlEscapes...)

// escape returns a value as HTML; what is HTML stays as it is.
func (m *machine) escape(v Value) Markup {
	if s, ok := v.(Markup); ok {
		return s
	}
	s := m.text(v)
	m.step(len(s) / 16)
	size := len(s)
	for i := 0; i < len(htmlEscapes); i += 2 {
		size += strings.Count(s, htmlEscapes[i]) * (len(htmlEscapes[i+1]) - 1)
	}
	if size == len(s) {
		return Markup(s)
	}
	m.reserve(size)
	return Markup(escaper.Replace(s))
}

// stripTags returns HTML without tags, entities resolved and blanks joined.
func (m *machine) stripTags(s string) string {
	m.step(len(s) / 8)
	m.reserveTimes(3, len(s)) // without tags, without blanks, without entities
	var b strings.Builder
	b.Grow(len(s))
	for {
		start, end := tag(s)
		b.WriteString(s[:start])
		if start == len(s) {
			break
		}
		s = s[end:]
	}
	return html.UnescapeString(joinedFields(b.String()))
}

// tag returns where the first tag or comment is; without one that has an end, it is
// behind the text.
func tag(s string) (start, end int) {
	start = strings.IndexByte(s, '<')
	if start < 0 {
		return len(s), len(s)
	}
	behind, mark := start, ">"
	if strings.HasPrefix(s[start:], "<!--") {
		behind, mark = start+len("<!--"), "-->"
	}
	n := strings.Index(s[behind:], mark)
	if n < 0 {
		return len(s), len(s)
	}
	return start, behind + n + len(mark)
}

// joinedFields returns a text without blanks around it and one space for those inside.
func joinedFields(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		end := strings.IndexFunc(s, isSpace)
		if end < 0 {
			end = len(s)
		}
		b.WriteString(s[:end])
		s = s[end:]
	}
	return b.String()
}
