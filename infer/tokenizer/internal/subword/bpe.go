package subword

import (
	"fmt"
	"unicode/utf8"
)

// A BPE is byte pair encoding: a word is taken apart into characters, of which
// pairs are merged as long as one has a merge.
type BPE struct {
	Rules
	ids   map[string]int32
	chars *charIDs // of undecorated characters
	pairs *pairTable
	inner *pairTable // pairs of characters that stand side by side in some merged token; nil: words are never cut
	rank  int32      // of the next merge
}

// Rules are the ways in which BPE models differ.
type Rules struct {
	Unk      int32       // -1: characters that have no token vanish
	Fuse     bool        // a run of unknown characters is one unknown token
	Whole    bool        // a word that is a token is not merged (ignore_merges)
	Bytewise bool        // words are bytes, to be written as byte-level characters
	Fallback *[256]int32 // tokens of bytes, -1 where there is none; nil: no byte fallback
	Prefix   string      // of characters that do not begin the word
	Suffix   string      // of the character that ends the word
}

// NewBPE returns a model without merges; ids is kept.
func NewBPE(ids map[string]int32, r Rules) *BPE {
	b := &BPE{Rules: r, ids: ids, chars: newCharIDs(ids), pairs: newPairTable(1 << 10)}
	if r.Prefix == "" && r.Suffix == "" && !r.Whole {
		b.inner = newPairTable(1 << 10)
	}
	return b
}

// Merge adds a merge of two tokens, which comes after those added before.
func (b *BPE) Merge(left, right string) error {
	l, ok := b.ids[left]
	if !ok {
		return fmt.Errorf("%q is not in the vocabulary", left)
	}
	r, ok := b.ids[right]
	if !ok {
		return fmt.Errorf("%q is not in the vocabulary", right)
	}
	if len(right) < len(b.Prefix) {
		return fmt.Errorf("%q is shorter than continuing_subword_prefix %q", right, b.Prefix)
	}
	token := left + right[len(b.Prefix):]
	id, ok := b.ids[token]
	if !ok {
		return fmt.Errorf("%q is not in the vocabulary", token)
	}
	b.MergeIDs(l, r, b.rank, id)
	b.rank++
	if !b.spelled(left, l) || !b.spelled(right, r) {
		b.inner = nil
	}
	b.Joins(token)
	return nil
}

// spelled reports whether a token always stands for the characters of its
// name, as tokens of bytes and of unknown characters do not. Only merges of
// such tokens tell from their names where merges can join characters.
func (b *BPE) spelled(token string, id int32) bool {
	_, isByte := ByteToken(token)
	return id != b.Unk && !(isByte && b.Fallback != nil)
}

// MergeIDs adds a merge of two symbols, of which lower ranks come first. Joins
// must be called for its token.
func (b *BPE) MergeIDs(left, right, rank, id int32) {
	b.pairs.put(left, right, merge{rank: rank, id: id})
}

// Joins notes that merges may make token of its characters.
func (b *BPE) Joins(token string) {
	if b.inner == nil {
		return
	}
	before, n := utf8.DecodeRuneInString(token)
	for _, r := range token[n:] {
		b.inner.put(before, r, merge{})
		before = r
	}
}

// Char returns the symbol of a character, or -1.
func (b *BPE) Char(r rune) int32 { return b.chars.get(r) }

// SetChar gives a character a symbol.
func (b *BPE) SetChar(r rune, id int32) { b.chars.set(r, id) }

// Encode appends the ids of word to dst.
func (b *BPE) Encode(w *Work, dst []int32, word string) []int32 {
	if len(word) <= maxCachedWord || b.inner == nil {
		return b.cached(w, dst, word)
	}
	start := 0
	before, idBefore := rune(-1), int32(-1)
	for i := 0; i < len(word); {
		r, n := b.char(word, i)
		id := b.chars.get(r)
		if i > 0 && b.apart(idBefore, id) {
			if _, joined := b.inner.get(before, r); !joined {
				dst = b.cached(w, dst, word[start:i])
				start = i
			}
		}
		before, idBefore = r, id
		i += n
	}
	return b.cached(w, dst, word[start:])
}

// apart reports whether two characters, whose ids are -1 if they are unknown,
// can be encoded without regard to each other if no merge joins them. A run of
// unknown ones may be one token; where they vanish, those before and after
// become neighbours.
func (b *BPE) apart(left, right int32) bool {
	if b.Unk < 0 {
		return left >= 0 && right >= 0
	}
	return left >= 0 || right >= 0
}

// char returns the character of word at i, and its length there.
func (b *BPE) char(word string, i int) (rune, int) {
	if b.Bytewise {
		return byteRunes[word[i]], 1
	}
	if c := word[i]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(word[i:])
}

// cached encodes a word, or a part of one that merges nothing with its neighbours.
func (b *BPE) cached(w *Work, dst []int32, word string) []int32 {
	if ids, ok := w.cache.get(word); ok {
		return append(dst, ids...)
	}
	start := len(dst)
	dst = b.fresh(w, dst, word)
	w.cache.put(word, dst[start:])
	return dst
}

// fresh encodes a word without the cache.
func (b *BPE) fresh(w *Work, dst []int32, word string) []int32 {
	if b.Whole {
		token := word
		if b.Bytewise {
			token = ByteLevel(word)
		}
		if id, ok := b.ids[token]; ok {
			return append(dst, id)
		}
	}
	w.syms = w.syms[:0]
	b.symbols(w, word)
	for i := range w.syms {
		w.syms[i].prev, w.syms[i].next = int32(i-1), int32(i+1)
	}
	if n := len(w.syms); n > 0 {
		w.syms[n-1].next = -1
	}
	w.mergeSymbols(b.pairs)
	for _, s := range w.syms {
		if s.id != gone {
			dst = append(dst, s.id)
		}
	}
	return dst
}

// symbols sets w.syms to the ids of the characters of word.
//
// An unknown token waits until a known character follows or the word ends, so
// byte tokens of later characters come before it. That is odd, but it is what
// the tokenizers library does.
func (b *BPE) symbols(w *Work, word string) {
	waiting := false
	for i := 0; i < len(word); {
		r, n := b.char(word, i)
		id, text := b.lookup(word, i, r)
		i += n
		switch {
		case id >= 0:
			if waiting {
				w.syms = append(w.syms, symbol{id: b.Unk})
				waiting = false
			}
			w.syms = append(w.syms, symbol{id: id})
		case b.Fallback != nil && b.appendBytes(w, text, r):
		case b.Unk >= 0:
			if waiting && !b.Fuse {
				w.syms = append(w.syms, symbol{id: b.Unk})
			}
			waiting = true
		}
	}
	if waiting {
		w.syms = append(w.syms, symbol{id: b.Unk})
	}
}

// lookup returns the id of the character r at word[i], or -1, and its text
// where it is decorated.
func (b *BPE) lookup(word string, i int, r rune) (id int32, text string) {
	if b.Prefix == "" && b.Suffix == "" {
		return b.chars.get(r), ""
	}
	_, n := b.char(word, i)
	first, last := i == 0, i+n == len(word)
	if (first || b.Prefix == "") && (!last || b.Suffix == "") {
		return b.chars.get(r), ""
	}
	text = string(r)
	if !first {
		text = b.Prefix + text
	}
	if last {
		text += b.Suffix
	}
	if id, ok := b.ids[text]; ok {
		return id, text
	}
	return -1, text
}

// appendBytes appends the tokens of the bytes of text, or of r if text is
// empty. It appends nothing and returns false unless every byte has a token.
func (b *BPE) appendBytes(w *Work, text string, r rune) bool {
	var buf [utf8.UTFMax]byte
	bytes := buf[:utf8.EncodeRune(buf[:], r)]
	if text != "" {
		bytes = []byte(text)
	}
	for _, c := range bytes {
		if b.Fallback[c] < 0 {
			return false
		}
	}
	for _, c := range bytes {
		w.syms = append(w.syms, symbol{id: b.Fallback[c]})
	}
	return true
}
