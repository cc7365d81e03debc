package chars

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxMarks is how many combining marks in a row package norm takes as they
// are: after 30 it inserts a character, as Unicode's Stream-Safe format asks.
// Reference tokenizers do not. A character may decompose into four marks.
const maxMarks = 30 / 4

// laterForms are the characters whose decompositions are younger than Unicode
// 11, the version of the tokenizers library's tables: it leaves them as they are.
var laterForms = Set{
	{0x32FF, 0x32FF}, {0xA7F2, 0xA7F4}, {0xAB69, 0xAB69}, {0x10781, 0x10785}, {0x10787, 0x107B0},
	{0x107B2, 0x107BA}, {0x11938, 0x11938}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
}

// Form returns s in a Unicode normalization form.
func Form(form norm.Form, s string) string {
	if form.IsNormalString(s) {
		return s
	}
	var b strings.Builder
	done := 0
	for i, r := range s {
		if r >= laterForms[0].Lo && laterForms.Has(r) {
			b.WriteString(formPart(form, s[done:i]))
			b.WriteRune(r)
			done = i + utf8.RuneLen(r)
		}
	}
	if done == 0 {
		return formPart(form, s)
	}
	b.WriteString(formPart(form, s[done:]))
	return b.String()
}

// formPart is Form for text without laterForms.
func formPart(form norm.Form, s string) string {
	if !manyMarks(s) {
		return form.String(s)
	}
	var b strings.Builder
	done := 0
	for i := range s {
		if i > done && form.PropertiesString(s[i:]).BoundaryBefore() {
			b.WriteString(formCluster(form, s[done:i]))
			done = i
		}
	}
	b.WriteString(formCluster(form, s[done:]))
	return b.String()
}

// manyMarks reports whether s has a run of more than maxMarks combining marks.
func manyMarks(s string) bool {
	run := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			run = 0
			i++
			continue
		}
		p := norm.NFKD.PropertiesString(s[i:])
		if run++; p.LeadCCC() == 0 {
			run = 0
		}
		if run > maxMarks {
			return true
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n
	}
	return false
}

// A mark is a character with its canonical combining class, 0 for a starter.
type mark struct {
	r   rune
	ccc uint8
}

// formCluster is Form for text that nothing before or after it changes.
// It follows the definitions of Unicode's chapter 3.11 one by one.
func formCluster(form norm.Form, s string) string {
	if utf8.RuneCountInString(s) <= maxMarks {
		return form.String(s)
	}
	apart := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		apart = norm.NFKD
	}
	var list []mark
	for _, c := range s {
		for _, r := range apart.String(string(c)) {
			list = append(list, mark{r, norm.NFD.PropertiesString(string(r)).CCC()})
		}
	}
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j].ccc > 0 {
			j++
		}
		slices.SortStableFunc(list[i:j], func(a, b mark) int { return int(a.ccc) - int(b.ccc) })
		i = j
	}
	if form == norm.NFC || form == norm.NFKC {
		list = compose(list)
	}
	var b strings.Builder
	for _, m := range list {
		b.WriteRune(m.r)
	}
	return b.String()
}

// compose joins starters with the characters after them that are not blocked.
func compose(list []mark) []mark {
	out := list[:0]
	starter := -1    // in out
	last := uint8(0) // class of what stands between the starter and here
	between := false // something does
	for _, m := range list {
		if starter >= 0 && (!between || last < m.ccc) {
			if r := []rune(norm.NFC.String(string([]rune{out[starter].r, m.r}))); len(r) == 1 {
				out[starter].r = r[0]
				continue
			}
		}
		out = append(out, m)
		if m.ccc == 0 {
			starter, between = len(out)-1, false
		} else {
			between = true
		}
		last = m.ccc
	}
	return out
}
