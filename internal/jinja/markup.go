package jinja

import (
	"html"
	"regexp"
	"strings"
)

var escaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

// escape returns a value as HTML; what is HTML stays as it is.
func (m *machine) escape(v Value) Markup {
	if s, ok := v.(Markup); ok {
		return s
	}
	s := m.text(v)
	m.reserve(5 * len(s))
	return Markup(escaper.Replace(s))
}

var tagPattern = regexp.MustCompile(`(?s)<!--.*?-->|<.*?>`)

// stripTags returns HTML without tags, entities resolved and blanks joined.
func stripTags(s string) string {
	s = tagPattern.ReplaceAllString(s, "")
	return html.UnescapeString(strings.Join(fields(s, -1), " "))
}
