package tokenizer

import "strings"

// A class is what transformers' class of a tokenizer adds to what files say.
type class struct {
	bos, eos, unk, pad string // tokens where the files name none

	ends           bool // BOS and EOS are put around texts by add_bos_token and add_eos_token, whatever tokenizer.json says
	addBOS, addEOS bool // where the files do not say
}

// classes are those of models that this program runs, by name without "Fast".
// Of others the files alone count, and not add_bos_token and add_eos_token.
var classes = map[string]class{
	"LlamaTokenizer":     {bos: "<s>", eos: "</s>", unk: "<unk>", ends: true, addBOS: true},
	"CodeLlamaTokenizer": {bos: "<s>", eos: "</s>", unk: "<unk>", ends: true, addBOS: true},
	"GemmaTokenizer":     {bos: "<bos>", eos: "<eos>", unk: "<unk>", pad: "<pad>", ends: true, addBOS: true},
	"CohereTokenizer":    {bos: "<BOS_TOKEN>", eos: "<|END_OF_TURN_TOKEN|>", unk: "<UNK>", ends: true, addBOS: true},
	"GPTNeoXTokenizer":   {bos: endOfText, eos: endOfText, unk: endOfText, ends: true},
	"GPT2Tokenizer":      {bos: endOfText, eos: endOfText, unk: endOfText},
	"CodeGenTokenizer":   {bos: endOfText, eos: endOfText, unk: endOfText},
	"Qwen2Tokenizer":     {eos: endOfText, unk: endOfText, pad: endOfText},
	"BloomTokenizer":     {bos: "<s>", eos: "</s>", unk: "<unk>", pad: "<pad>"},
	"T5Tokenizer":        {eos: "</s>", unk: "<unk>", pad: "<pad>"},
}

const endOfText = "<|endoftext|>"

// class returns the class that the files name. Where they name none nothing is
// added, but add_bos_token and add_eos_token count if they are given.
func (s *settings) class() class {
	if s.Class == "" {
		return class{ends: s.AddBOS != nil || s.AddEOS != nil}
	}
	return classes[strings.TrimSuffix(s.Class, "Fast")]
}

// prefixOnce reports whether a tokenizer.model puts no space before the texts
// that follow added tokens: Llama's class does that where legacy is false.
func (s *settings) prefixOnce() bool {
	name := strings.TrimSuffix(s.Class, "Fast")
	return (name == "LlamaTokenizer" || name == "CodeLlamaTokenizer") && s.Legacy != nil && !*s.Legacy
}

// spaceFirst reports whether a space is then put before the whole text.
func (s *settings) spaceFirst() bool { return s.prefixOnce() && (s.Prefix == nil || *s.Prefix) }
