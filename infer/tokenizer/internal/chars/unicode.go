// Package chars knows characters as the reference tokenizers know them: sets of
// them, the properties of Unicode 16, and normalization forms.
package chars

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// unicode16 holds Unicode 16.0's properties, whatever version package unicode
// is of; unicode16.py wrote it and says how it is to be read.
//
//go:embed unicode16.txt
var unicode16 string

// named holds the sets of unicode16.txt and those that are made of them, by PlainName.
var named = sync.OnceValue(func() map[string]Set {
	all := map[string]Set{"any": All, "cs": {{0xD800, 0xDFFF}}}
	groups := map[string]Set{}
	for line := range strings.Lines(unicode16) {
		name, ranges, _ := strings.Cut(strings.TrimSpace(line), " ")
		s := parseRanges(ranges)
		all[PlainName(name)] = s
		if len(name) == 2 {
			group := strings.ToLower(name[:1])
			groups[group] = append(groups[group], s...)
		}
	}
	var assigned Set
	for group, s := range groups {
		all[group] = s.Tidy()
		assigned = append(assigned, s...)
	}
	all["assigned"] = append(assigned, all["cs"]...).Tidy()
	all["cn"] = all["assigned"].Not()
	all["c"] = all["c"].Union(all["cs"]).Union(all["cn"])
	all["lc"] = all["lu"].Union(all["ll"]).Union(all["lt"])
	for long, short := range unicode.CategoryAliases {
		if s, ok := all[PlainName(short)]; ok {
			all[PlainName(long)] = s
		}
	}
	return all
})

// parseRanges reads the ranges of a line of unicode16.txt.
func parseRanges(text string) Set {
	var s Set
	at := rune(0)
	for field := range strings.FieldsSeq(text) {
		gap, more, _ := strings.Cut(field, "-")
		lo := at + hex(gap)
		at = lo + hex(more)
		s = append(s, Range{lo, at})
	}
	return s
}

// hex reads a number of unicode16.txt, 0 if there is none.
func hex(text string) rune {
	n, _ := strconv.ParseUint(text, 16, 21)
	return rune(n)
}

// Named returns the characters of a general category, script or binary property
// of Unicode 16; case, spaces, "_" and "-" in the name do not count.
func Named(name string) (Set, bool) {
	s, ok := named()[PlainName(name)]
	return s, ok
}

// Union returns the characters of any of the sets that Named knows by these names.
func Union(names ...string) Set {
	var all Set
	for _, name := range names {
		s, ok := Named(name)
		if !ok {
			panic("chars: no property " + name)
		}
		all = append(all, s...)
	}
	return all.Tidy()
}

// PlainName is how names of properties are compared.
func PlainName(name string) string {
	return strings.NewReplacer(" ", "", "_", "", "-", "").Replace(strings.ToLower(name))
}

// A Table is a Set for quick look-ups: a bit a character, in pages of 256.
type Table [(unicode.MaxRune + 1) >> 8]*[4]uint64

// NewTable returns the table of a set.
func NewTable(s Set) *Table {
	t := new(Table)
	full := &[4]uint64{1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1}
	for _, r := range s {
		for c := r.Lo; c <= r.Hi; c++ {
			if c&0xFF == 0 && r.Hi-c >= 0xFF {
				t[c>>8] = full
				c += 0xFF
				continue
			}
			if t[c>>8] == nil {
				t[c>>8] = new([4]uint64)
			}
			t[c>>8][c>>6&3] |= 1 << (c & 63)
		}
	}
	return t
}

// Has reports whether r, which is no more than unicode.MaxRune, is of the set.
func (t *Table) Has(r rune) bool {
	page := t[r>>8]
	return page != nil && page[r>>6&3]>>(r&63)&1 == 1
}
