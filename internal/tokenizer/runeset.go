package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A runeRange is the characters from lo to hi, both included.
type runeRange struct{ lo, hi rune }

// A runeSet is a set of characters: ranges in rising order that do not touch.
type runeSet []runeRange

// allRunes is every code point, newline the one that a dot does not match.
var (
	allRunes = runeSet{{0, unicode.MaxRune}}
	newline  = runeSet{{'\n', '\n'}}
)

// setOf returns the set of single characters.
func setOf(list ...rune) runeSet {
	var s runeSet
	for _, r := range list {
		s = append(s, runeRange{r, r})
	}
	return s.tidy()
}

// setOfTables returns the union of Unicode tables.
func setOfTables(tables ...*unicode.RangeTable) runeSet {
	var s runeSet
	for _, t := range tables {
		for _, r := range t.R16 {
			s = s.addStrided(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			s = s.addStrided(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return s.tidy()
}

// addStrided appends lo, lo+stride, ..., hi without keeping the order.
func (s runeSet) addStrided(lo, hi, stride rune) runeSet {
	if stride == 1 {
		return append(s, runeRange{lo, hi})
	}
	for r := lo; r <= hi; r += stride {
		s = append(s, runeRange{r, r})
	}
	return s
}

// tidy sorts s and joins ranges that overlap or touch.
func (s runeSet) tidy() runeSet {
	slices.SortFunc(s, func(a, b runeRange) int { return int(a.lo) - int(b.lo) })
	out := s[:0]
	for _, r := range s {
		if n := len(out); n > 0 && r.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// union returns the characters of s or t.
func (s runeSet) union(t runeSet) runeSet {
	return append(slices.Clone(s), t...).tidy()
}

// not returns the characters that are not of s.
func (s runeSet) not() runeSet {
	var out runeSet
	next := rune(0)
	for _, r := range s {
		if r.lo > next {
			out = append(out, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, runeRange{next, unicode.MaxRune})
	}
	return out
}

// and returns the characters of both s and t.
func (s runeSet) and(t runeSet) runeSet {
	return s.not().union(t.not()).not()
}

// overlaps reports whether s and t have a character in common.
func (s runeSet) overlaps(t runeSet) bool { return len(s.and(t)) > 0 }

// has reports whether r is of s.
func (s runeSet) has(r rune) bool {
	i, found := slices.BinarySearchFunc(s, r, func(x runeRange, r rune) int { return int(x.lo) - int(r) })
	return found || i > 0 && r <= s[i-1].hi
}

// fold returns s with all case variants of its characters.
func (s runeSet) fold() runeSet {
	out := slices.Clone(s)
	for _, r := range types().cased {
		if s.has(r) {
			for v := unicode.SimpleFold(r); v != r; v = unicode.SimpleFold(v) {
				out = append(out, runeRange{v, v})
			}
		}
	}
	return out.tidy()
}

// one returns the character of a set of one.
func (s runeSet) one() (rune, bool) {
	if len(s) == 1 && s[0].lo == s[0].hi {
		return s[0].lo, true
	}
	return 0, false
}

// pattern writes s for package regexp2.
func (s runeSet) pattern() string {
	if r, ok := s.one(); ok {
		return fmt.Sprintf(`\x{%X}`, r)
	}
	open := "["
	if n := len(s); n > 0 && s[n-1].hi == unicode.MaxRune {
		if s = s.not(); len(s) == 0 {
			return `[\s\S]`
		}
		open = "[^"
	}
	if len(s) == 0 {
		return `(?!)`
	}
	var b strings.Builder
	b.WriteString(open)
	for _, r := range s {
		fmt.Fprintf(&b, `\x{%X}`, r.lo)
		if r.hi > r.lo {
			fmt.Fprintf(&b, `-\x{%X}`, r.hi)
		}
	}
	b.WriteString("]")
	return b.String()
}
