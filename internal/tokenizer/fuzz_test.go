package tokenizer

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"
)

var nan32 = float32(math.NaN())

// f32 returns the bits of a float.
func f32(f float32) uint32 { return math.Float32bits(f) }

// exercise does with a tokenizer what a program would.
func exercise(t *testing.T, tok *Tokenizer, text string) {
	if len(text) > 256 {
		text = text[:256]
	}
	ids := tok.Encode(text)
	for _, id := range ids {
		if _, ok := tok.Token(id); !ok {
			t.Fatalf("Encode(%q) has id %d, which is no token", text, id)
		}
	}
	if again := tok.Encode(text); !slices.Equal(ids, again) {
		t.Fatalf("Encode(%q) is %v, then %v", text, ids, again)
	}
	tok.EncodeParse(text, SpecialAsText)
	if got, want := streamed(t, tok.NewStream(), ids), tok.Decode(ids); got != want {
		t.Fatalf("streamed %q, decoded %q", got, want)
	}
	if got, want := streamed(t, tok.NewStreamSkip(), ids), tok.DecodeSkip(ids); got != want {
		t.Fatalf("streamed %q, decoded %q without special tokens", got, want)
	}
}

// FuzzLoadJSON: no tokenizer.json makes loading, encoding or decoding panic.
func FuzzLoadJSON(f *testing.F) {
	var models, components []struct {
		Kind      string
		Tokenizer json.RawMessage
		Config    json.RawMessage
	}
	for name, to := range map[string]any{"models.json": &models, "components.json": &components} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		if err := json.Unmarshal(data, to); err != nil {
			f.Fatal(err)
		}
	}
	for _, m := range models {
		f.Add([]byte(m.Tokenizer), "ab <s> aé日")
	}
	for _, c := range components {
		f.Add([]byte(bpeFile(`"`+c.Kind+`": `+string(c.Config))), "ab 12 'll ▁ b")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if tok, err := parseJSON(data); err == nil {
			exercise(t, tok, text)
		}
	})
}

// FuzzLoadModel: no tokenizer.model makes loading, encoding or decoding panic.
func FuzzLoadModel(f *testing.F) {
	data, err := os.ReadFile(filepath.Join(golden(f, "sp_unigram_rules"), "tokenizer.model"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, "A b  ﬁ½ <sep> the")
	f.Add(protoModel(bpeType, protoPiece{"<unk>", 0, unknownPiece}, protoPiece{"a", -1, normalPiece}, protoPiece{"▁", -2, normalPiece},
		protoPiece{"▁a", -1, normalPiece}, protoPiece{"<u>", 0, userPiece}, protoPiece{"<s>", 0, controlPiece}), "a <u>aab")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if tok, err := parseModel(data); err == nil {
			exercise(t, tok, text)
		}
	})
}

// FuzzPattern: no regular expression makes the translation panic, nor what it
// writes fail to compile.
func FuzzPattern(f *testing.F) {
	for _, expr := range []string{gpt2Pattern, `[^(\s|[.,!?])]+`, `(?i:'s|[a-c&&b])++`, `\p{^Han}{2,3}?|\x{41}(?<=a)(?!b)(?>c)`, `(?x: a # b`, `[[:^alpha:]-z]`} {
		f.Add(expr, "a 'S b1")
	}
	f.Fuzz(func(t *testing.T, expr, text string) {
		re, err := compilePattern(expr)
		if err != nil || len(text) > 64 || !utf8.ValidString(text) {
			return
		}
		done := 0
		regexFinder(re)(text, func(start, end int) {
			if start < done || end < start || end > len(text) {
				t.Fatalf("%q in %q: match [%d, %d) after %d", expr, text, start, end, done)
			}
			done = end
		})
	})
}
