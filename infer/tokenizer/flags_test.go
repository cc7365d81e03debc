package tokenizer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What tokenizer_config.json says of a token of tokenizer.json has the last word, but for
// special, which a token is if either file says so, or if it has a purpose; as in
// transformers 4.57.3.
func TestFlagsOfBothFiles(t *testing.T) {
	const file = `{"model": {"type": "BPE", "vocab": {"a": 0, " ": 1}, "merges": []}, "added_tokens": [
		{"id": 2, "content": "x", "single_word": false, "lstrip": %t, "rstrip": false, "normalized": false, "special": %t}]}`
	for _, c := range []struct {
		name            string
		lstrip, special bool
		config          string
		wantSpecial     bool
		ids             []int32 // of "a x a"
	}{
		{"alone", false, false, `{}`, false, []int32{0, 1, 2, 1, 0}},
		{"named", false, false, `{"eos_token": "x"}`, true, []int32{0, 1, 2, 1, 0}},
		{"one of many", false, false, `{"additional_special_tokens": ["x"]}`, true, []int32{0, 1, 2, 1, 0}},
		{"by id", false, false, `{"added_tokens_decoder": {"2": {"content": "x", "special": true}}}`, true, []int32{0, 1, 2, 1, 0}},
		{"by id not", false, true, `{"added_tokens_decoder": {"2": {"content": "x", "special": false}}}`, true, []int32{0, 1, 2, 1, 0}},
		{"takes spaces", false, false, `{"added_tokens_decoder": {"2": {"content": "x", "lstrip": true, "rstrip": true}}}`, false, []int32{0, 2, 0}},
		{"takes none", true, false, `{"added_tokens_decoder": {"2": {"content": "x"}}}`, false, []int32{0, 1, 2, 1, 0}},
		{"an object by its purpose", true, false, `{"eos_token": {"content": "x", "lstrip": false}}`, true, []int32{0, 2, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "tokenizer.json", fmt.Sprintf(file, c.lstrip, c.special))
			write(t, dir, "tokenizer_config.json", c.config)
			tok := load(t, dir)
			if tok.Special(2) != c.wantSpecial {
				t.Errorf("x is special: %t", tok.Special(2))
			}
			checkIDs(t, "a x a", plain(t, tok, "a x a"), c.ids)
		})
	}
}

// Texts in which special tokens are not to be found are refused.
func TestSplitSpecialTokens(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tokenizer.json", bpeFile(""))
	write(t, dir, "tokenizer_config.json", `{"split_special_tokens": false}`)
	load(t, dir)
	write(t, dir, "tokenizer_config.json", `{"split_special_tokens": true}`)
	if _, err := Load(dir); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "split_special_tokens") {
		t.Errorf("error %v", err)
	}
}

// Many tokens with a purpose are read; each was looked for among all of them once, which took minutes.
func TestManySpecialTokens(t *testing.T) {
	var byID, purposes []string
	for i := range 30_000 {
		byID = append(byID, fmt.Sprintf(`"%d": {"content": "<%d>", "special": false}`, 3+i, i))
		purposes = append(purposes, fmt.Sprintf(`"<%d>"`, i))
	}
	dir := t.TempDir()
	write(t, dir, "tokenizer.json", bpeFile(""))
	write(t, dir, "tokenizer_config.json", fmt.Sprintf(`{"added_tokens_decoder": {%s}, "additional_special_tokens": [%s]}`,
		strings.Join(byID, ","), strings.Join(purposes, ",")))
	pieces := t.TempDir()
	model, err := os.ReadFile(filepath.Join(golden(t, "sp_unigram_rules"), "tokenizer.model"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, pieces, "tokenizer.model", string(model))
	write(t, pieces, "tokenizer_config.json", fmt.Sprintf(`{"additional_special_tokens": [%s]}`, strings.Join(purposes, ",")))
	if tok := load(t, dir); !tok.Special(3) || tok.VocabSize() != 3+30_000 {
		t.Errorf("%d tokens", tok.VocabSize())
	}
	load(t, pieces)
}
