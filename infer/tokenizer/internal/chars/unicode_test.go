package chars

import (
	"testing"
	"unicode"
)

// TestNamed: sizes of Unicode 16's general categories, from DerivedGeneralCategory.txt.
func TestNamed(t *testing.T) {
	for name, want := range map[string]int{
		"L": 141028, "Lu": 1858, "M": 2501, "Nd": 760, "P": 855, "S": 8514, "Zs": 17, "Cc": 65, "Cf": 170, "Cs": 2048, "Co": 137468, "LC": 4147,
		"Han": 99030, "uppercase letter": 1858, "White_Space": 25, "any": unicode.MaxRune + 1,
	} {
		s, ok := Named(name)
		n := 0
		for _, r := range s {
			n += int(r.Hi - r.Lo + 1)
		}
		if !ok || n != want {
			t.Errorf("%s: %d characters, want %d", name, n, want)
		}
	}
	if _, ok := Named("Klingon"); ok {
		t.Error("a property that there is not")
	}
	unassigned, _ := Named("Cn")
	assigned, _ := Named("assigned")
	if unassigned.Overlaps(assigned) || len(unassigned.Union(assigned)) != 1 {
		t.Error("assigned and unassigned characters do not share out all")
	}
}

// TestTablesAreSets: a table has what its set has.
func TestTablesAreSets(t *testing.T) {
	for _, name := range []string{"L", "Nd", "Cn", "Bert_Control", "Word"} {
		s := Union(name)
		table := NewTable(s)
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if table.Has(r) != s.Has(r) {
				t.Fatalf("%s: table has %U: %t", name, r, table.Has(r))
			}
		}
	}
}

// TestKinds: characters on which versions of Unicode and of the library differ.
func TestKinds(t *testing.T) {
	cases := []struct {
		name string
		is   func(rune) bool
		yes  string
		no   string
	}{
		{"word", IsWord, "axzé_1Ⅷ\u200d", "²- \u200b"},
		{"numeric", IsNumeric, "09²Ⅷ½\U00011de0", "a-"},
		{"punctuation", IsPunctuation, "!$+^`|~«_", "a£\u2e52"},
		{"accent", IsAccent, "\u0301\u0903", "\u0897a"},
		{"BERT's accent", IsBertAccent, "\u0301", "\u0903\u0897a"},
		{"BERT's control", IsBertControl, "\x00\x07\ufffd\u200b\ue000", "\t\n\ra\u0378"},
	}
	for _, c := range cases {
		for _, r := range c.yes {
			if !c.is(r) {
				t.Errorf("%s: not %U", c.name, r)
			}
		}
		for _, r := range c.no {
			if c.is(r) {
				t.Errorf("%s: %U", c.name, r)
			}
		}
	}
}

// TestCase: letters of Unicode 16 and 17, which Go's tables may not have.
func TestCase(t *testing.T) {
	if got, want := Lowercase("ÀİΣ\u1c89\ua7cb\ua7dc\U00010d51\U00016ea1x"), "ài\u0307σ\u1c8a\u0264\u019b\U00010d71\U00016ebcx"; got != want {
		t.Errorf("lower case %q, want %q", got, want)
	}
	if s := Of('k').Fold(); len(s) != 3 {
		t.Errorf("case variants of k: %v", s)
	}
	if s := Of('\u0264').Fold(); !s.Has('\ua7cb') {
		t.Errorf("case variants of U+0264: %v", s)
	}
	if s := Of('\ua7ce').Fold(); len(s) != 1 {
		t.Errorf("case variants of a letter that Unicode 16 does not have: %v", s)
	}
}
