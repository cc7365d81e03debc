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
package tokenizer

import (
	"errors"
	"strings"
)

// ErrUnsupported marks a tokenizer that asks for something this package does
// not do: guessing would give wrong ids.
var ErrUnsupported = errors.New("not supported")

// A Tokenizer encodes and decodes text. It is safe for concurrent use.
type Tokenizer struct {
	vocab    vocabulary
	added    added
	norm     normalizer // nil: text stays as it is
	split    []splitter
	model    model
	template template
	stages   []stage // of decoding
	pieces   bool    // from a tokenizer.model
	bos, eos int32   // -1: the files name none
	workers  workers
}

// A model turns words into ids.
type model interface {
	// encode appends the ids of a word, which is not empty, to dst.
	encode(w *worker, dst []int32, word string) []int32
}

// A template is the ids that are put around an encoded text.
type template struct {
	before, after []int32
}

// A Parse says what becomes of special tokens that occur in a text.
type Parse int

const (
	ParseSpecial  Parse = iota // "</s>" in a text is the token </s>
	SpecialAsText              // "</s>" in a text is four characters like any others
)

// Encode returns the ids of text between the special tokens that the files
// ask for, such as BOS; special tokens that occur in text become their ids.
// Bytes of text that are not UTF-8 count as U+FFFD.
func (t *Tokenizer) Encode(text string) []int32 {
	ids := append(idsFor(text), t.template.before...)
	ids = t.encode(ids, text, ParseSpecial)
	return append(ids, t.template.after...)
}

// EncodePlain is Encode without the special tokens around the text.
func (t *Tokenizer) EncodePlain(text string) []int32 {
	return t.encode(idsFor(text), text, ParseSpecial)
}

// EncodeParse is EncodePlain with a choice of what becomes of special tokens
// in the text. Text from strangers is encoded with SpecialAsText.
func (t *Tokenizer) EncodeParse(text string, p Parse) []int32 {
	return t.encode(idsFor(text), text, p)
}

// idsFor returns an empty list with room for the ids that a text has about:
// one for four bytes in English.
func idsFor(text string) []int32 { return make([]int32, 0, len(text)/4+8) }

// Decode returns the text of ids. Special tokens are kept; ids that the
// tokenizer does not have are left out.
func (t *Tokenizer) Decode(ids []int32) string { return t.decode(ids, keepSpecial) }

// DecodeSkip is Decode without the special tokens.
func (t *Tokenizer) DecodeSkip(ids []int32) string { return t.decode(ids, skipSpecial) }

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

// Special reports whether DecodeSkip leaves id out.
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

// encode appends the ids of text to dst.
func (t *Tokenizer) encode(dst []int32, text string, p Parse) []int32 {
	w := t.workers.get(t)
	defer t.workers.put(w)
	w.ids = dst
	text = strings.ToValidUTF8(text, "\uFFFD")
	t.added.raw.split(text, p, func(s section) {
		if s.id >= 0 {
			w.ids = append(w.ids, s.id)
			return
		}
		t.encodeSection(w, s, p)
	})
	dst, w.ids = w.ids, nil
	return dst
}

// encodeSection encodes text that lies between added tokens.
func (t *Tokenizer) encodeSection(w *worker, s section, p Parse) {
	first := s.start == 0
	if t.norm != nil {
		var shifted bool
		s.text, shifted = t.norm(s.text)
		first = first && !shifted
	}
	t.added.normalized.split(s.text, p, func(s section) {
		if s.id >= 0 {
			w.ids = append(w.ids, s.id)
		} else if s.text != "" {
			w.run(0, piece{text: s.text, first: first && s.start == 0})
		}
	})
}
