// Package tokenizer turns text into token ids and back, exactly as the files
// of a Hugging Face model folder say.
//
// Its nouns: a tokenizer is built from tokenizer.json (the pipeline of the
// tokenizers library) or from tokenizer.model (SentencePiece). Text passes
//
//	added tokens -> normalizer -> added tokens -> splitters -> model -> template
//
// Added tokens are found in the text before anything else looks at it. The
// normalizer rewrites what lies between them, splitters cut it into words, the
// model (BPE or Unigram) turns each word into ids, and the template puts
// special tokens such as BOS around the whole. Decoding looks tokens up and
// passes them through a chain of stages.
//
// Everything that a file may say is either done as the reference library does
// it or refused with an error that wraps ErrUnsupported and names the field.
//
// The steps have packages of their own: jsonfields reads files, normalize, split
// and decode hold the components, subword the models, sentencepiece the format
// of tokenizer.model. Below them are chars, pattern and trie.
package tokenizer

import (
	"exl2/infer/tokenizer/internal/decode"
	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/normalize"
	"exl2/infer/tokenizer/internal/split"
	"exl2/infer/tokenizer/internal/subword"
)

// ErrUnsupported marks a tokenizer that asks for something this package does
// not do: guessing would give wrong ids.
var ErrUnsupported = jsonfields.ErrUnsupported

// A Tokenizer encodes and decodes text. It is safe for concurrent use.
type Tokenizer struct {
	vocab      vocabulary
	added      added
	norm       normalize.Normalizer // nil: text stays as it is
	split      []split.Splitter
	model      subword.Model
	template   template
	stages     []decode.Stage
	pieces     bool  // from a tokenizer.model
	spaceFirst bool  // a space is put before a text that does not begin with an added token
	bos, eos   int32 // -1: the files name none
	workers    workers
}

// A template is the ids that are put around an encoded text.
type template struct {
	before, after []int32
}

// VocabSize returns the highest id plus one.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.tokens) }

// TokenID returns the id of a token by its text in the vocabulary, which is
// not always what it decodes to: "Ġthe", "▁the", "<0x0A>".
func (t *Tokenizer) TokenID(text string) (int32, bool) {
	return t.vocab.id(text)
}

// Token returns the text of an id in the vocabulary.
func (t *Tokenizer) Token(id int32) (string, bool) {
	if !t.vocab.has(id) {
		return "", false
	}
	return t.vocab.tokens[id], true
}

// Special reports whether decoding with SkipSpecial leaves id out.
func (t *Tokenizer) Special(id int32) bool { return t.vocab.has(id) && t.vocab.special[id] }

// BOS returns the id of the token that begins a text.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos >= 0 }

// EOS returns the id of the token that ends a text.
func (t *Tokenizer) EOS() (int32, bool) { return t.eos, t.eos >= 0 }

// AddsBOS reports whether Encode begins with BOS.
func (t *Tokenizer) AddsBOS() bool {
	return t.bos >= 0 && len(t.template.before) > 0 && t.template.before[0] == t.bos
}

// AddsEOS reports whether Encode ends with EOS.
func (t *Tokenizer) AddsEOS() bool {
	n := len(t.template.after)
	return t.eos >= 0 && n > 0 && t.template.after[n-1] == t.eos
}
