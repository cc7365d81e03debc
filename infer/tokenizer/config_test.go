package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// template adds <s> before a text, as many a tokenizer.json does.
const bosTemplate = `"added_tokens": [
	{"id": 3, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
	{"id": 4, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
	"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
	"pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}}`

func TestEndsOfAText(t *testing.T) {
	const none = -1
	cases := []struct {
		name     string
		fields   string
		files    map[string]string
		bos, eos int32
		ids      []int32 // of "ab"
	}{
		{"nothing said", ``, nil, none, none, []int32{2}},
		{"template", bosTemplate, nil, 3, none, []int32{3, 2}},
		{"strings", bosTemplate, map[string]string{"tokenizer_config.json": `{"bos_token": "<s>", "eos_token": "</s>"}`}, 3, 4, []int32{3, 2}},
		{"objects", bosTemplate, map[string]string{"special_tokens_map.json": `{"eos_token": {"content": "</s>", "lstrip": false}}`}, 3, 4, []int32{3, 2}},
		{"special_tokens_map.json has the last word", bosTemplate, map[string]string{
			"special_tokens_map.json": `{"eos_token": "</s>"}`, "tokenizer_config.json": `{"eos_token": "<s>"}`}, 3, 4, []int32{3, 2}},
		{"but is not read where tokens are listed by id", bosTemplate, map[string]string{
			"special_tokens_map.json": `{"eos_token": "<s>"}`, "tokenizer_config.json": `{"eos_token": "</s>", "added_tokens_decoder": {}}`}, 3, 4, []int32{3, 2}},
		{"no BOS wanted", bosTemplate, map[string]string{"tokenizer_config.json": `{"add_bos_token": false}`}, 3, none, []int32{2}},
		{"EOS wanted", bosTemplate, map[string]string{"tokenizer_config.json": `{"eos_token": "</s>", "add_eos_token": true}`}, 3, 4, []int32{3, 2, 4}},
		{"BOS wanted without a template", ``, map[string]string{"tokenizer_config.json": `{"bos_token": "a", "add_bos_token": true}`}, 0, none, []int32{0, 0, 1}}, // a special token is found in texts
		{"BOS wanted, but the class does not listen", ``, map[string]string{"tokenizer_config.json": `{"bos_token": "x", "add_bos_token": true, "tokenizer_class": "PreTrainedTokenizerFast"}`}, 3, none, []int32{2}},
		{"the class adds none", bosTemplate, map[string]string{"tokenizer_config.json": `{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<s>", "tokenizer_class": "GPTNeoXTokenizerFast"}`}, 3, 4, []int32{2}},
		{"the class adds its own", bosTemplate, map[string]string{"tokenizer_config.json": `{"add_eos_token": true, "tokenizer_class": "LlamaTokenizer"}`}, 3, 4, []int32{3, 2, 4}},
		{"BOS wanted, but which", ``, map[string]string{"tokenizer_config.json": `{"bos_token": null, "add_bos_token": true}`}, none, none, []int32{2}},
		{"numbers of Python", ``, map[string]string{"tokenizer_config.json": `{"bos_token": "x", "model_max_length": Infinity, "add_bos_token": true, "tokenizer_class": "PreTrainedTokenizerFast"}`}, 3, none, []int32{2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "tokenizer.json", bpeFile(c.fields))
			for name, content := range c.files {
				write(t, dir, name, content)
			}
			tok := load(t, dir)
			checkEnds(t, tok, c.bos, c.eos)
			checkIDs(t, "ab", around(t, tok, "ab"), c.ids)
			if adds := len(c.ids) > 1 && c.ids[0] == c.bos; tok.AddsBOS() != adds {
				t.Errorf("AddsBOS is %t", !adds)
			}
			if adds := c.ids[len(c.ids)-1] == c.eos; tok.AddsEOS() != adds {
				t.Errorf("AddsEOS is %t", !adds)
			}
		})
	}
}

// checkEnds checks BOS and EOS, -1 for none.
func checkEnds(t *testing.T, tok *Tokenizer, bos, eos int32) {
	t.Helper()
	if id, ok := tok.BOS(); ok != (bos >= 0) || ok && id != bos {
		t.Errorf("BOS is %d, %t; want %d", id, ok, bos)
	}
	if id, ok := tok.EOS(); ok != (eos >= 0) || ok && id != eos {
		t.Errorf("EOS is %d, %t; want %d", id, ok, eos)
	}
}

func TestDamagedSettings(t *testing.T) {
	cases := []struct{ file, content, want string }{
		{"tokenizer_config.json", `{"bos_token": 7}`, "a token is neither a string nor an object with content: 7"},
		{"tokenizer_config.json", `{"add_bos_token": "yes"}`, "add_bos_token: have a JSON string, want true or false"},
		{"special_tokens_map.json", `{`, "unexpected end of JSON input"},
	}
	for _, c := range cases {
		t.Run(c.content, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "tokenizer.json", bpeFile(""))
			write(t, dir, c.file, c.content)
			_, err := Load(dir)
			checkRefusal(t, err, filepath.Join(dir, c.file)+": ", c.want)
		})
	}
}

// TestModelWithAddedTokens: what a folder adds to its tokenizer.model is found
// in texts, and a text after it begins anew.
func TestModelWithAddedTokens(t *testing.T) {
	dir := t.TempDir()
	model, err := os.ReadFile(filepath.Join(golden(t, "sp_unigram_rules"), "tokenizer.model"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "tokenizer.model", string(model))
	bare := load(t, dir)
	n := int32(bare.VocabSize())
	write(t, dir, "added_tokens.json", `{"<|im_start|>": 300, "<|im_end|>": 301}`)
	write(t, dir, "tokenizer_config.json", `{"eos_token": "<|im_end|>", "add_bos_token": false,
		"added_tokens_decoder": {"300": {"content": "<|im_start|>", "special": true}}}`)
	tok := load(t, dir)
	if n > 300 || tok.VocabSize() != 302 {
		t.Fatalf("VocabSize is %d with the added tokens, %d without", tok.VocabSize(), n)
	}
	text := "<|im_start|>the<|im_end|>a b"
	ids := around(t, tok, text)
	want := append([]int32{300}, plain(t, bare, "the")...)
	want = append(append(want, 301), plain(t, bare, "a b")...)
	checkIDs(t, text, ids, want)
	checkText(t, "Decode", tok.Decode(ids, DecodeOptions{}), text)
	checkText(t, "DecodeSkip", tok.Decode(ids, DecodeOptions{SkipSpecial: true}), "the a b") // as SentencePiece decodes the ids that are left
	if !tok.Special(300) || !tok.Special(301) || tok.Special(299) || tok.Special(400) {
		t.Error("not just the added tokens are special")
	}
	checkEnds(t, bare, 1, 2)
	checkEnds(t, tok, 1, 301)
	checkIDs(t, "BOS by Llama's habit", around(t, bare, "a")[:1], []int32{1})
}

func TestVocabulary(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tokenizer.json", `{"model": {"vocab": {"a": 0, "b": 5}, "merges": []}, "added_tokens": [
		{"id": 9, "content": "x", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}]}`)
	tok := load(t, dir)
	if n := tok.VocabSize(); n != 6 {
		t.Errorf("VocabSize is %d, want 6", n)
	}
	for text, want := range map[string]int32{"a": 0, "b": 5, "x": 2} { // the added token follows the two of the model, whatever the file says
		if id, ok := tok.TokenID(text); !ok || id != want {
			t.Errorf("TokenID(%q) = %d, %t; want %d", text, id, ok, want)
		}
		if got, ok := tok.Token(want); !ok || got != text {
			t.Errorf("Token(%d) = %q, %t; want %q", want, got, ok, text)
		}
	}
	if _, ok := tok.TokenID("c"); ok {
		t.Error("TokenID finds a token that is not there")
	}
	for _, id := range []int32{-1, 1, 6} {
		if text, ok := tok.Token(id); ok {
			t.Errorf("Token(%d) = %q, want none", id, text)
		}
	}
}

// TestSettings: the files beside a tokenizer count as in transformers 4.57.1;
// testdata/settings.py wrote the cases.
func TestSettings(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "settings.json"))
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Golden   string
		Files    map[string]json.RawMessage
		BOS, EOS *int32
		Cases    []goldenCase
	}
	if err := json.Unmarshal(data, &groups); err != nil {
		t.Fatal(err)
	}
	for i, g := range groups {
		t.Run(fmt.Sprint(g.Golden, "_", i), func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"tokenizer.json", "tokenizer.model"} {
				if data, err := os.ReadFile(filepath.Join(golden(t, g.Golden), name)); err == nil {
					write(t, dir, name, string(data))
				}
			}
			for name, content := range g.Files {
				write(t, dir, name, string(content))
			}
			tok := load(t, dir)
			for _, c := range g.Cases {
				checkIDs(t, c.Text, plain(t, tok, c.Text), c.IDsPlain)
				checkIDs(t, c.Text+" in the template", around(t, tok, c.Text), c.IDs)
			}
			for _, end := range []struct {
				name string
				want *int32
				get  func() (int32, bool)
			}{{"BOS", g.BOS, tok.BOS}, {"EOS", g.EOS, tok.EOS}} {
				if id, ok := end.get(); end.want != nil && (!ok || id != *end.want) {
					t.Errorf("%s is %d, %t; want %d", end.name, id, ok, *end.want)
				}
			}
		})
	}
}

// TestFilesOfAnotherTime: what the tokenizers library reads without a word.
func TestFilesOfAnotherTime(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tokenizer.json", `{"model": {"unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.5], ["b", -2.5]]}, "added_tokens": [],
		"post_processor": {"add_bos_token": true, "add_eos_token": false, "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "b", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
		"pair": [], "special_tokens": {"b": {"id": "b", "ids": [2], "tokens": ["b"]}}}}`)
	checkIDs(t, "Unigram without a type, Cohere's template", around(t, load(t, dir), "ab"), []int32{2, 1, 2})
}
