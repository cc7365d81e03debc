package chars

import (
	"testing"
	"unicode"
)

// TestSets: operations on sets agree with asking for each character.
func TestSets(t *testing.T) {
	a, b := Of('a', 'b', 'c', 'x', 'é').Union(Set{{'0', '9'}}), Set{{'b', 'm'}, {0x10FFFF, unicode.MaxRune}}
	for _, r := range []rune{0, '0', '5', '9', ':', 'a', 'b', 'd', 'm', 'n', 'x', 'é', 'ê', 0x10FFFE, unicode.MaxRune} {
		if got, want := a.Union(b).Has(r), a.Has(r) || b.Has(r); got != want {
			t.Errorf("union has %q: %t", r, got)
		}
		if got, want := a.And(b).Has(r), a.Has(r) && b.Has(r); got != want {
			t.Errorf("intersection has %q: %t", r, got)
		}
		if got := a.Not().Has(r); got == a.Has(r) {
			t.Errorf("complement has %q: %t", r, got)
		}
	}
}
