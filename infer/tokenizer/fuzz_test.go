package tokenizer

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var nan32 = float32(math.NaN())

// f32 returns the bits of a float.
func f32(f float32) uint32 { return math.Float32bits(f) }

// exercise does with a tokenizer what a program would.
func exercise(t *testing.T, tok *Tokenizer, text string) {
	if len(text) > 256 {
		text = text[:256]
	}
	ids := around(t, tok, text)
	for _, id := range ids {
		if _, ok := tok.Token(id); !ok {
			t.Fatalf("Encode(%q) has id %d, which is no token", text, id)
		}
	}
	if again := around(t, tok, text); !slices.Equal(ids, again) {
		t.Fatalf("Encode(%q) is %v, then %v", text, ids, again)
	}
	if got, want := streamed(t, tok.NewStream(DecodeOptions{}), ids), tok.Decode(ids, DecodeOptions{}); got != want {
		t.Fatalf("streamed %q, decoded %q", got, want)
	}
	if got, want := streamed(t, tok.NewStream(DecodeOptions{SkipSpecial: true}), ids), tok.Decode(ids, DecodeOptions{SkipSpecial: true}); got != want {
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
		if tok, err := parseJSON(data, new(settings)); err == nil {
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
	f.Add(protoModel(2, protoPiece{"<unk>", 0, 2}, protoPiece{"a", -1, 1}, protoPiece{"▁", -2, 1},
		protoPiece{"▁a", -1, 1}, protoPiece{"<u>", 0, 4}, protoPiece{"<s>", 0, 3}), "a <u>aab")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if tok, err := parseModel(data, new(settings)); err == nil {
			exercise(t, tok, text)
		}
	})
}

// FuzzSettings: no files beside a tokenizer make loading, encoding or decoding panic.
func FuzzSettings(f *testing.F) {
	model, err := os.ReadFile(filepath.Join(golden(f, "sp_bpe_gemma"), "tokenizer.model"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"tokenizer_class": "LlamaTokenizer", "legacy": false, "bos_token": {"content": "<s>", "lstrip": true}, "add_eos_token": true}`), []byte(`{"x": 3000}`), "a<s> x")
	f.Add([]byte(`{"added_tokens_decoder": {"7": {"content": "ab", "single_word": true, "normalized": true}}, "extra_special_tokens": {"q": "<q>"}}`), []byte(`{}`), "ab <q>")
	f.Fuzz(func(t *testing.T, config, later []byte, text string) {
		dir := t.TempDir()
		write(t, dir, "tokenizer_config.json", string(config))
		write(t, dir, "added_tokens.json", string(later))
		s, err := readSettings(dir)
		if err != nil {
			return
		}
		for name, data := range map[string][]byte{"tokenizer.json": []byte(bpeFile("")), "tokenizer.model": model} {
			if tok, err := parse(name, data, s); err == nil {
				tok.configure(s)
				exercise(t, tok, text)
			}
		}
	})
}
