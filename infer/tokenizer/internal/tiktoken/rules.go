package tiktoken

import (
	"fmt"

	"exl2/infer/tokenizer/internal/jsonfields"
)

// Rules are what a file of the tiktoken library does not say.
type Rules struct {
	Pattern string           // of Oniguruma's syntax; its matches are the words
	NFC     bool             // texts are normalized first
	Special map[int32]string // tokens that the files beside it need not list
	BOS     string           // around texts, "" for none
	EOS     string
	AddBOS  bool

	file string
	size int
}

const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	upper        = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`
	lower        = `[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`
	spaces       = `\s*[\r\n]+|\s+(?!\S)|\s+`
)

// known are the files whose rules are known, told by name and number of tokens.
// Sources: llama3/tokenizer.py of meta-llama, tokenization_qwen.py of
// Qwen/Qwen-7B, tokenization_kimi.py of moonshotai/Kimi-K2-Instruct.
var known = []Rules{
	{
		// Llama 3
		file: "tokenizer.model", size: 128000, BOS: "<|begin_of_text|>", EOS: "<|end_of_text|>", AddBOS: true,
		Pattern: contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaces,
		Special: map[int32]string{ // those on which 3.0 and later agree
			128000: "<|begin_of_text|>", 128001: "<|end_of_text|>", 128002: "<|reserved_special_token_0|>",
			128003: "<|reserved_special_token_1|>", 128006: "<|start_header_id|>", 128007: "<|end_header_id|>", 128009: "<|eot_id|>",
		},
	},
	{
		// Qwen
		file: "qwen.tiktoken", size: 151643, EOS: "<|endoftext|>", NFC: true,
		Pattern: contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaces,
		Special: numbered(map[int32]string{151643: "<|endoftext|>", 151644: "<|im_start|>", 151645: "<|im_end|>"}, 151646, 205, func(i int32) string { return fmt.Sprintf("<|extra_%d|>", i-151646) }),
	},
	{
		// Kimi
		file: "tiktoken.model", size: 163584,
		Pattern: `[\p{Han}]+|[^\r\n\p{L}\p{N}]?` + upper + `*` + lower + `+` + contractions + `?|[^\r\n\p{L}\p{N}]?` + upper + `+` + lower + `*` + contractions +
			`?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaces,
		Special: numbered(map[int32]string{}, 163584, 258, func(i int32) string { return fmt.Sprintf("<|reserved_token_%d|>", i) }),
	},
}

// numbered adds n tokens from an id on.
func numbered(all map[int32]string, from int32, n int32, name func(id int32) string) map[int32]string {
	for id := from; id < from+n; id++ {
		all[id] = name(id)
	}
	return all
}

// Rules returns the rules of a file by its name.
func (f *File) Rules(name string) (*Rules, error) {
	for _, r := range known {
		if r.file == name && r.size == f.Len() {
			return &r, nil
		}
	}
	return nil, fmt.Errorf("a file of the tiktoken library of %d tokens, which does not say how texts are split; it is known for Llama 3, Qwen and Kimi; "+
		"convert it to a tokenizer.json: %w", f.Len(), jsonfields.ErrUnsupported)
}
