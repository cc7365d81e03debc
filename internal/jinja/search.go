package jinja

import "strings"

// A finder finds a text in another, in a time that grows with their lengths alone.
type finder struct {
	text   string
	last   bool    // from the end
	starts []int32 // of a long text: how many characters up to each are those that it starts with
}

// longText is the length from which strings.Index may look at all of a text again for
// every few characters.
const longText = 64

// finder returns one for a text in s, or parts of s that do not overlap; it finds the
// last place if last is set.
func (m *machine) finder(s, text string, last bool) *finder {
	f := &finder{text: text, last: last}
	m.step(len(s) / 64)
	if len(text) < longText || len(text) > len(s) {
		return f
	}
	m.step((len(s) + len(text)) / 16)
	m.reserveTimes(4, len(text))
	f.starts = make([]int32, len(text))
	for i := 1; i < len(text); i++ {
		f.starts[i] = f.follow(f.starts[i-1], f.at(text, i))
	}
	return f
}

// at returns byte i of a text, counted from where the search begins.
func (f *finder) at(s string, i int) byte {
	if f.last {
		return s[len(s)-1-i]
	}
	return s[i]
}

// follow returns how many bytes of the text are found when c comes behind n that are.
func (f *finder) follow(n int32, c byte) int32 {
	for n > 0 && f.at(f.text, int(n)) != c {
		n = f.starts[n-1]
	}
	if f.at(f.text, int(n)) == c {
		n++
	}
	return n
}

// index returns where the text is in s, or -1.
func (f *finder) index(s string) int {
	switch {
	case len(f.text) > len(s):
		return -1
	case f.starts != nil:
		return f.indexLong(s)
	case f.last:
		return strings.LastIndex(s, f.text)
	}
	return strings.Index(s, f.text)
}

func (f *finder) indexLong(s string) int {
	found := int32(0)
	for i := range len(s) {
		if found = f.follow(found, f.at(s, i)); int(found) < len(f.text) {
			continue
		}
		if f.last {
			return len(s) - 1 - i
		}
		return i + 1 - len(f.text)
	}
	return -1
}

// count returns how often a text is in s, without overlaps.
func (m *machine) count(s, text string) int {
	f := m.finder(s, text, false)
	if f.starts == nil {
		return strings.Count(s, text)
	}
	n := 0
	for at := f.index(s); at >= 0; at = f.index(s) {
		s = s[at+len(text):]
		n++
	}
	return n
}

// replace is str.replace; a negative count is all.
func (m *machine) replace(s, old, with string, count int) string {
	n := m.count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if n == 0 {
		return s
	}
	if len(old) < longText {
		m.reserve(max(len(s)+m.times(len(with)-len(old), n), 0))
		return strings.Replace(s, old, with, n)
	}
	f := m.finder(s, old, false)
	b := builder{m: m}
	b.grow(len(s) + m.times(len(with)-len(old), n))
	for range n {
		at := f.index(s)
		b.write(s[:at])
		b.write(with)
		s = s[at+len(old):]
	}
	b.write(s)
	return b.String()
}
