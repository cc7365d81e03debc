package tokenizer

import (
	"strings"
	"testing"
	"unicode"
)

// TestRuneSets: operations on sets agree with asking for each character.
func TestRuneSets(t *testing.T) {
	a, b := setOf('a', 'b', 'c', 'x', 'é').union(runeSet{{'0', '9'}}), runeSet{{'b', 'm'}, {0x10FFFF, unicode.MaxRune}}
	for _, r := range []rune{0, '0', '5', '9', ':', 'a', 'b', 'd', 'm', 'n', 'x', 'é', 'ê', 0x10FFFE, unicode.MaxRune} {
		if got, want := a.union(b).has(r), a.has(r) || b.has(r); got != want {
			t.Errorf("union has %q: %t", r, got)
		}
		if got, want := a.and(b).has(r), a.has(r) && b.has(r); got != want {
			t.Errorf("intersection has %q: %t", r, got)
		}
		if got := a.not().has(r); got == a.has(r) {
			t.Errorf("complement has %q: %t", r, got)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.Is(unicode.L, r) != types().properties["l"].has(r) {
			t.Fatalf("property L has %q: %t", r, types().properties["l"].has(r))
		}
	}
}

// TestSets: sizes of character types as Oniguruma 6.9.10 has them, leaving out
// code points that this Go version's Unicode does not know.
func TestSets(t *testing.T) {
	cases := []struct {
		expr, in, out string
	}{
		{`\w`, "aé_1²ª\u0301Ⅷ", "-℗٪ "},
		{`[\w]`, "aé_1ª\u0301Ⅷ", "²½- "},
		{`\s`, "\t\n\v\f\r \u0085\u00a0\u2028\u3000", "\u200b\ufeffa"},
		{`\d`, "09٣", "²Ⅷa"},
		{`\h`, "0afAF", "gG"},
		{`\p{Punct}`, "!«_", "+$<"},
		{`[[:punct:]]`, "!«_+$<", "a "},
		{`\p{^L}`, "1 ", "aé"},
		{`(?i:k)`, "kK\u212a", "x"},
		{`(?i:\p{Lu})`, "A", "a"},
		{`[a-c&&[^b]x]`, "ac", "bx"},
		{`[^a-c&&[^b]]`, "bx\n", "ac"},
		{`.`, "a\r", "\n"},
		{`(?m).`, "a\n", ""},
	}
	for _, c := range cases {
		t.Run(c.expr, func(t *testing.T) {
			re, err := compilePattern(c.expr)
			if err != nil {
				t.Fatal(err)
			}
			find := regexFinder(re)
			matches := func(r rune) (yes bool) {
				find(string(r), func(start, end int) { yes = yes || end > start })
				return yes
			}
			for _, r := range c.in {
				if !matches(r) {
					t.Errorf("does not match %q", r)
				}
			}
			for _, r := range c.out {
				if matches(r) {
					t.Errorf("matches %q", r)
				}
			}
		})
	}
}

func TestPatternsRefused(t *testing.T) {
	cases := []struct{ expr, want string }{
		{`(a`, "( without )"}, {`a)`, "unexpected )"}, {`[a`, "[ without ]"}, {`*a`, "nothing to repeat"}, {`\`, "ends in a backslash"},
		{`[b-a]`, "ends before it begins"}, {`\x{110000}`, "not the number of a character"}, {`\x{D800}`, "not the number of a character"},
		{`a{200000}`, "more than 100000"}, {`a{3,2}`, "bounds swapped"}, {`\p{Klingon}`, `property "Klingon"`}, {`(?s:.)`, "(?s"},
		{`\1`, `\1`}, {`\k<a>`, `\k`}, {`\G`, `\G`}, {`\R`, `\R`}, {`\012`, "octal"}, {`(*FAIL)`, "(*"}, {`[[:foo:]]`, "[:foo"}, {`[]a]`, "begins with ]"},
		{`(?i)ss`, "where case does not count"}, {`(?i)ß`, "where case does not count"}, {`(?i)[\p{L}]`, "where case does not count"},
		{`(a+)+`, "exponential"}, {`(a|bc)*`, "exponential"}, {`(a*)*`, "exponential"}, {`((a?){9}){9}`, "exponential"},
		{strings.Repeat("a?", 80), "too many repeats"}, {strings.Repeat("(", 300), "nested deeper"},
	}
	for _, c := range cases {
		t.Run(c.expr[:min(len(c.expr), 20)], func(t *testing.T) {
			if _, err := compilePattern(c.expr); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestRealPatterns: the expressions of well-known tokenizers are all accepted.
func TestRealPatterns(t *testing.T) {
	const contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	const letters = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	const capitals = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	for name, expr := range map[string]string{
		"GPT-2":        gpt2Pattern,
		"Llama 3":      contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		"o200k":        `[^\r\n\p{L}\p{N}]?` + capitals + `*` + letters + `+` + contractions + `?|[^\r\n\p{L}\p{N}]?` + capitals + `+` + letters + `*` + contractions + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		"cl100k":       `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,
		"DeepSeek V3":  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
		"BLOOM":        ` ?[^(\s|[.,!?…。，、।۔،])]+`,
		"thousands":    `(?=(\d{3})+(?!\d))`,
		"ideographs":   `[一-龥぀-ゟ゠-ヿ]+`,
		"intersection": `[\p{Han}]+|[\p{Lu}\p{Lo}&&[^\p{Han}]]*`,
	} {
		if _, err := compilePattern(expr); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
