package chars

import (
	"slices"
	"sync"
	"unicode"
)

// A Range is the characters from Lo to Hi, both included.
type Range struct{ Lo, Hi rune }

// A Set is a set of characters: ranges in rising order that do not touch.
type Set []Range

// All is every code point.
var All = Set{{0, unicode.MaxRune}}

// Spans returns the set of the characters from ends[0] to ends[1], from ends[2] to
// ends[3], and so on.
func Spans(ends ...rune) Set {
	var s Set
	for i := 0; i < len(ends); i += 2 {
		s = append(s, Range{ends[i], ends[i+1]})
	}
	return s.Tidy()
}

// Of returns the set of single characters.
func Of(list ...rune) Set {
	var s Set
	for _, r := range list {
		s = append(s, Range{r, r})
	}
	return s.Tidy()
}

// Tidy sorts s and joins ranges that overlap or touch.
func (s Set) Tidy() Set {
	slices.SortFunc(s, func(a, b Range) int { return int(a.Lo) - int(b.Lo) })
	out := s[:0]
	for _, r := range s {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// Union returns the characters of s or t.
func (s Set) Union(t Set) Set {
	return append(slices.Clone(s), t...).Tidy()
}

// Not returns the characters that are not of s.
func (s Set) Not() Set {
	var out Set
	next := rune(0)
	for _, r := range s {
		if r.Lo > next {
			out = append(out, Range{next, r.Lo - 1})
		}
		next = r.Hi + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, Range{next, unicode.MaxRune})
	}
	return out
}

// And returns the characters of both s and t.
func (s Set) And(t Set) Set {
	return s.Not().Union(t.Not()).Not()
}

// Overlaps reports whether s and t have a character in common.
func (s Set) Overlaps(t Set) bool { return len(s.And(t)) > 0 }

// Has reports whether r is of s.
func (s Set) Has(r rune) bool {
	i, found := slices.BinarySearchFunc(s, r, func(x Range, r rune) int { return int(x.Lo) - int(r) })
	return found || i > 0 && r <= s[i-1].Hi
}

// cased are the characters that have case variants in Unicode 16, with these.
var cased = sync.OnceValue(func() map[rune][]rune {
	all := map[rune][]rune{}
	for _, c := range unicode.CaseRanges {
		for r := rune(c.Lo); r <= rune(c.Hi); r++ {
			for v := unicode.SimpleFold(r); v != r; v = unicode.SimpleFold(v) {
				all[r] = append(all[r], v)
			}
		}
	}
	for _, p := range pairs16 {
		for r := p.first; r <= p.last; r++ {
			lower := p.lower + r - p.first
			all[r], all[lower] = append(all[r], lower), append(all[lower], r)
		}
	}
	for _, p := range pairs17 {
		for r := p.first; r <= p.last; r++ {
			delete(all, r)
			delete(all, p.lower+r-p.first)
		}
	}
	return all
})

// Fold returns s with all case variants of its characters.
func (s Set) Fold() Set {
	out := slices.Clone(s)
	for r, variants := range cased() {
		if s.Has(r) {
			for _, v := range variants {
				out = append(out, Range{v, v})
			}
		}
	}
	return out.Tidy()
}

// One returns the character of a set of one.
func (s Set) One() (rune, bool) {
	if len(s) == 1 && s[0].Lo == s[0].Hi {
		return s[0].Lo, true
	}
	return 0, false
}

// FoldsToMany holds the characters whose case folding is several characters,
// from Unicode's CaseFolding.txt (status F).
var FoldsToMany = Set{
	{0xDF, 0xDF}, {0x130, 0x130}, {0x149, 0x149}, {0x1F0, 0x1F0}, {0x390, 0x390}, {0x3B0, 0x3B0}, {0x587, 0x587},
	{0x1E96, 0x1E9A}, {0x1E9E, 0x1E9E}, {0x1F50, 0x1F50}, {0x1F52, 0x1F52}, {0x1F54, 0x1F54}, {0x1F56, 0x1F56},
	{0x1F80, 0x1FAF}, {0x1FB2, 0x1FB4}, {0x1FB6, 0x1FB7}, {0x1FBC, 0x1FBC}, {0x1FC2, 0x1FC4}, {0x1FC6, 0x1FC7},
	{0x1FCC, 0x1FCC}, {0x1FD2, 0x1FD3}, {0x1FD6, 0x1FD7}, {0x1FE2, 0x1FE4}, {0x1FE6, 0x1FE7}, {0x1FF2, 0x1FF4},
	{0x1FF6, 0x1FF7}, {0x1FFC, 0x1FFC}, {0xFB00, 0xFB06}, {0xFB13, 0xFB17},
}
