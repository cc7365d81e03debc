package pattern

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"exl2/infer/tokenizer/internal/limit"

	"pgregory.net/rapid"
)

// TestSets: sizes of character types as Oniguruma 6.9.10 has them.
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
			re, err := Compile(c.expr)
			if err != nil {
				t.Fatal(err)
			}
			matches := func(r rune) (yes bool) {
				re.Find(nil, string(r), func(start, end int) { yes = yes || end > start })
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
		{`(ab+)+`, "exponential"}, {`(a|bc)*`, "exponential"}, {`(a*b?)*`, "exponential"}, {`((a?){9}){9}`, "exponential"},
		{strings.Repeat("(?:a|aa)", 30), "too many alternatives or repeats in a row"}, {`(?:a|aa){30}`, "exponential"},
		{strings.Repeat("a?", 80), "too many alternatives or repeats"}, {strings.Repeat("(", 300), "nested deeper"},
	}
	for _, c := range cases {
		t.Run(c.expr[:min(len(c.expr), 20)], func(t *testing.T) {
			if _, err := Compile(c.expr); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestRealPatterns: the expressions of well-known tokenizers are all accepted.
func TestRealPatterns(t *testing.T) {
	const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	const contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	const letters = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	const capitals = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	for name, expr := range map[string]string{
		"GPT-2":        gpt2,
		"Llama 3":      contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		"o200k":        `[^\r\n\p{L}\p{N}]?` + capitals + `*` + letters + `+` + contractions + `?|[^\r\n\p{L}\p{N}]?` + capitals + `+` + letters + `*` + contractions + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		"cl100k":       `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,
		"DeepSeek V3":  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
		"BLOOM":        ` ?[^(\s|[.,!?…。，、।۔،])]+`,
		"thousands":    `(?=(\d{3})+(?!\d))`,
		"ideographs":   `[一-龥぀-ゟ゠-ヿ]+`,
		"intersection": `[\p{Han}]+|[\p{Lu}\p{Lo}&&[^\p{Han}]]*`,
	} {
		if _, err := Compile(expr); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSlowPatternsGiveUp: what the bounds of cost let through is stopped by time,
// with an error that names the pattern.
func TestSlowPatternsGiveUp(t *testing.T) {
	for _, expr := range []string{`[ab]*a*[ab]*a*[ab]*b`, `(?:a|aa){18}b`, `(?=a*(?=a*(?=a*(?=a*b))))a`} {
		t.Run(expr, func(t *testing.T) {
			r, err := Compile(expr)
			if err != nil {
				t.Fatal(err)
			}
			r.re.MatchTimeout = time.Millisecond
			clock := limit.Start(context.Background(), time.Hour)
			r.Find(clock, strings.Repeat("a", 20000)+"xb", func(int, int) {})
			if err := clock.Stop(); err == nil || !strings.Contains(err.Error(), "regex \""+expr+"\": one match in a text of 20002 bytes takes longer than") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestManySlowMatchesGiveUp: the time of a text counts, not only that of a match.
func TestManySlowMatchesGiveUp(t *testing.T) {
	r, err := Compile(`a`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	clock := limit.Start(ctx, time.Hour)
	matches := 0
	r.Find(clock, strings.Repeat("a", 100), func(int, int) {
		if matches++; matches == 3 {
			cancel()
			for !clock.Up() { // another goroutine is told
				time.Sleep(time.Millisecond)
			}
		}
	})
	if err := clock.Stop(); matches != 3 || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `regex "a"`) {
		t.Errorf("%d matches, error %v", matches, err)
	}
}

// TestPrompt: which expressions go without a limit for each match.
func TestPrompt(t *testing.T) {
	const llama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	cases := []struct {
		expr string
		want bool
	}{
		{llama3, true}, {`\p{N}{1,3}`, true}, {`[^\r\n\p{L}]?+\p{L}++|.`, true}, {`a?b|a`, true}, {`a*`, true}, {`x|y+`, true}, {`a(?:b|c)?`, true},
		{`\p{N}{2,3}`, false}, // where one digit stands alone nothing matches
		{`a+b`, false}, {`a*a*b|.`, false}, {`a?b`, false}, {`(?=a+b)a|a`, false}, {`(?>a*b)|.`, false}, {`(?=a)`, false}, {`(?:a|aa){12}b|(?m:.)`, false}, {`a?+a`, false},
	}
	for _, c := range cases {
		out, err := translate(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.reach.prompt(); got != c.want {
			t.Errorf("%s: prompt is %t", c.expr, got)
		}
	}
}

// TestSureIsSure: where a part is sure to match it does.
func TestSureIsSure(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "b", "[ab]", "[^a]", "a?", "b*", "[ab]+", "a++", "b?+", "(?:a|bc)", "(?:ab|a?)", "(?=a)", "(?!b)", "(?>a*b?)", "a{2}", "c{0,2}"})
	rapid.Check(t, func(t *rapid.T) {
		expr := strings.Join(rapid.SliceOfN(piece, 1, 4).Draw(t, "parts"), "")
		if rapid.Bool().Draw(t, "or") {
			expr += "|" + strings.Join(rapid.SliceOfN(piece, 1, 3).Draw(t, "more"), "")
		}
		out, err := translate(expr)
		if err != nil {
			return
		}
		re, err := Compile(`\A(?:` + expr + `)`)
		if err != nil {
			return
		}
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abcx")), 1, 6, -1).Draw(t, "text")
		length := -1
		re.Find(nil, text, func(start, end int) {
			if start == 0 {
				length = end
			}
		})
		first := rune(text[0])
		if out.reach.sure.Has(first) && length < 0 || out.reach.always && length < 0 {
			t.Fatalf("%s is sure to match %q but does not", expr, text)
		}
		if length > 0 && !out.reach.first.Has(first) || length == 0 && !out.reach.empty {
			t.Fatalf("%s matches %d characters of %q but cannot begin so", expr, length, text)
		}
	})
}
