package tokenizer

import "testing"

// Where a file says that there is no token of a purpose, the class of the tokenizer adds
// none, as in transformers 4.57.3: DeepSeek's say so of unk_token.
func TestNoTokenOfAPurpose(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  map[string]string
		tokens int
	}{
		{"not said", map[string]string{"tokenizer_config.json": `{"tokenizer_class": "LlamaTokenizerFast", "bos_token": "a", "eos_token": "b"}`}, 4},
		{"none", map[string]string{"tokenizer_config.json": `{"tokenizer_class": "LlamaTokenizerFast", "bos_token": "a", "eos_token": "b", "unk_token": null}`}, 3},
		{"empty", map[string]string{"tokenizer_config.json": `{"tokenizer_class": "LlamaTokenizerFast", "bos_token": "a", "eos_token": "b", "unk_token": ""}`}, 3},
		{"of all", map[string]string{"tokenizer_config.json": `{"tokenizer_class": "Qwen2Tokenizer", "eos_token": null, "unk_token": null, "pad_token": null}`}, 3},
		{"none in the older file", map[string]string{
			"tokenizer_config.json":   `{"tokenizer_class": "LlamaTokenizerFast", "bos_token": "a", "eos_token": "b", "unk_token": "?"}`,
			"special_tokens_map.json": `{"unk_token": null}`,
		}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "tokenizer.json", bpeFile(""))
			for name, content := range c.files {
				write(t, dir, name, content)
			}
			if n := load(t, dir).VocabSize(); n != c.tokens {
				t.Errorf("%d tokens, want %d", n, c.tokens)
			}
		})
	}
}
