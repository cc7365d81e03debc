package jinja

import "strings"

var padMethods = table(
	padding("ljust", func(missing, width int) int { return 0 }),
	padding("rjust", func(missing, width int) int { return missing }),
	padding("center", func(missing, width int) int { return missing/2 + missing&width&1 }),
	function("zfill", "self, width", func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		m.step(len(s) / 64)
		sign := 0
		if s != "" && (s[0] == '-' || s[0] == '+') {
			sign = 1
		}
		return sameKind(a[0], m.padded(s[:sign], "0", wantInt(a[1])-runeCount(s), s[sign:], 0))
	}),
	function("expandtabs", "self, tabsize=8", expandTabs),
)

// padding makes a method that fills a string up to a width; left says how many of
// the missing characters go in front.
func padding(name string, left func(missing, width int) int) *builtin {
	return function(name, `self, width, fillchar=" "`, func(m *machine, a []Value) Value {
		s, _ := textOf(a[0])
		m.step(len(s) / 64)
		fill := wantText(name+"() argument 2", a[2])
		if runeCount(fill) != 1 {
			raise(TypeError, "The fill character must be exactly one character long")
		}
		width := wantInt(a[1])
		missing := max(width-runeCount(s), 0)
		n := 0
		if missing > 0 {
			n = left(missing, width)
		}
		return sameKind(a[0], m.padded("", fill, n, s, missing-n))
	})
}

// padded returns a head, so many times a fill, a text, and the fill again.
func (m *machine) padded(head, fill string, left int, s string, right int) string {
	left, right = max(left, 0), max(right, 0)
	b := builder{m: m}
	b.grow(len(head) + len(s) + m.times(len(fill), left) + m.times(len(fill), right))
	b.write(head)
	b.repeat(fill, left)
	b.write(s)
	b.repeat(fill, right)
	return b.String()
}

// expandTabs puts blanks in the place of tabs.
func expandTabs(m *machine, a []Value) Value {
	s, _ := textOf(a[0])
	size := wantInt(a[1])
	m.step(len(s) / 4)
	total := 0
	eachTab(s, size, func(piece string, blanks int) {
		if total += len(piece) + blanks; total > m.limits.Bytes {
			m.reserve(total)
		}
	})
	b := builder{m: m}
	b.grow(total)
	eachTab(s, size, func(piece string, blanks int) {
		b.write(piece)
		b.repeat(" ", blanks)
	})
	return sameKind(a[0], b.String())
}

// eachTab calls f with every text in front of a tab and how many blanks the tab stands
// for, and with the text behind the last.
func eachTab(s string, size int, f func(piece string, blanks int)) {
	column := 0
	for found := true; found; {
		var piece string
		piece, s, found = strings.Cut(s, "\t")
		if i := strings.LastIndexAny(piece, "\n\r"); i >= 0 {
			column = runeCount(piece[i+1:])
		} else {
			column += runeCount(piece)
		}
		blanks := 0
		if found && size > 0 {
			blanks = size - column%size
		}
		column += blanks
		f(piece, blanks)
	}
}
