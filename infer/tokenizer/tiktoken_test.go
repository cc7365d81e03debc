package tokenizer

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"testing"
)

// tiktokenFile returns a file of n tokens: the bytes, some words, and fillers.
func tiktokenFile(n int) string {
	var out []byte
	add := func(id int, token string) {
		out = fmt.Appendf(out, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), id)
	}
	for b := range 256 {
		add(b, string([]byte{byte(b)}))
	}
	words := []string{"he", "ll", "hell", "hello", " w", "12", "123", "日", "hi", "LL"}
	for i := 256; i < n; i++ {
		if i < 256+len(words) {
			add(i, words[i-256])
		} else {
			add(i, fmt.Sprintf("\xff%d", i))
		}
	}
	return string(out)
}

// TestTiktokenFiles: files of the tiktoken library that are known, with the ids
// that the library gives for them; of others the error names the file.
func TestTiktokenFiles(t *testing.T) {
	const kimi = `{"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]", "added_tokens_decoder": {
		"163584": {"content": "[BOS]", "special": true}, "163585": {"content": "[EOS]", "special": true}}}`
	cases := []struct {
		name, file, config, text string
		size                     int
		plain                    []int32
		bos, eos                 int32
		before                   int // ids that are put before a text
	}{
		{"Llama 3", "tokenizer.model", "", "hello 1234<|eot_id|>", 128000, []int32{259, 32, 262, 52, 128009}, 128000, 128001, 1},
		{"Qwen", "qwen.tiktoken", "", "hello 12<|im_end|>", 151643, []int32{259, 32, 49, 50, 151645}, -1, 151643, 0},
		{"Kimi", "tiktoken.model", kimi, "hiLL日[EOS]<|reserved_token_163600|>", 163584, []int32{264, 265, 263, 163585, 163600}, 163584, 163585, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.file, tiktokenFile(c.size))
			if c.config != "" {
				write(t, dir, "tokenizer_config.json", c.config)
			}
			tok := load(t, dir)
			checkIDs(t, c.text, plain(t, tok, c.text), c.plain)
			checkText(t, "Decode", tok.Decode(c.plain, DecodeOptions{}), c.text)
			checkEnds(t, tok, c.bos, c.eos)
			if n := len(around(t, tok, "")); n != c.before {
				t.Errorf("%d ids around an empty text, want %d", n, c.before)
			}
		})
	}
	t.Run("unknown", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "other.tiktoken", tiktokenFile(300))
		_, err := Load(dir)
		checkRefusal(t, err, filepath.Join(dir, "other.tiktoken")+": ", "a file of the tiktoken library of 300 tokens")
	})
}
