package jinja

import "strings"

var padMethods = table(
	padding("ljust", func(missing, width int) int { return 0 }),
	padding("rjust", func(missing, width int) int { return missing }),
	padding("center", func(missing, width int) int { return missing/2 + missing&width&1 }),
	function("zfill", "self, width", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		missing := max(wantInt(a[1])-runeCount(s), 0)
		m.reserve(missing + len(s))
		sign := 0
		if s != "" && (s[0] == '-' || s[0] == '+') {
			sign = 1
		}
		return sameKind(a[0], s[:sign]+strings.Repeat("0", missing)+s[sign:])
	}),
	function("expandtabs", "self, tabsize=8", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		size := wantInt(a[1])
		b := builder{m: m}
		column := 0
		for _, r := range s {
			switch {
			case r == '\t' && size > 0:
				n := size - column%size
				m.reserve(n)
				b.WriteString(strings.Repeat(" ", n))
				column += n
			case r == '\t':
			default:
				b.write(string(r))
				column++
				if r == '\n' || r == '\r' {
					column = 0
				}
			}
		}
		return sameKind(a[0], b.String())
	}),
)

// padding makes a method that fills a string up to a width; left says how many of
// the missing characters go in front.
func padding(name string, left func(missing, width int) int) *builtin {
	return function(name, `self, width, fillchar=" "`, func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		fill := wantText(name+"() argument 2", a[2])
		if runeCount(fill) != 1 {
			raise(TypeError, "The fill character must be exactly one character long")
		}
		width := wantInt(a[1])
		missing := max(width-runeCount(s), 0)
		m.reserveTimes(len(fill), missing)
		m.reserve(len(s))
		n := 0
		if missing > 0 {
			n = left(missing, width)
		}
		return sameKind(a[0], strings.Repeat(fill, n)+s+strings.Repeat(fill, missing-n))
	})
}
