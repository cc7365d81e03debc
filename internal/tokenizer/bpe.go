package tokenizer

import "unicode/utf8"

// bpe is byte pair encoding: a word is taken apart into characters, of which
// pairs are merged as long as one has a merge.
type bpe struct {
	ids   map[string]int32
	chars *charIDs // of undecorated characters
	pairs *pairTable
	inner *pairTable // pairs of characters that stand side by side in some merged token; nil: words are never cut

	bytewise bool        // words are bytes, to be written as byte-level characters
	whole    bool        // a word that is a token is not merged (ignore_merges)
	unk      int32       // -1: characters that have no token vanish
	fuse     bool        // a run of unknown characters is one unknown token
	fallback *[256]int32 // tokens of bytes, -1 where there is none; nil: no byte fallback
	prefix   string      // of characters that do not begin the word
	suffix   string      // of the character that ends the word
}

// encode appends the ids of word to dst.
func (b *bpe) encode(w *worker, dst []int32, word string) []int32 {
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
func (b *bpe) apart(left, right int32) bool {
	if b.unk < 0 {
		return left >= 0 && right >= 0
	}
	return left >= 0 || right >= 0
}

// char returns the character of word at i, and its length there.
func (b *bpe) char(word string, i int) (rune, int) {
	if b.bytewise {
		return byteRunes[word[i]], 1
	}
	if c := word[i]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(word[i:])
}

// cached encodes a word, or a part of one that merges nothing with its neighbours.
func (b *bpe) cached(w *worker, dst []int32, word string) []int32 {
	if ids, ok := w.cache.get(word); ok {
		return append(dst, ids...)
	}
	start := len(dst)
	dst = b.fresh(w, dst, word)
	w.cache.put(word, dst[start:])
	return dst
}

// fresh encodes a word without the cache.
func (b *bpe) fresh(w *worker, dst []int32, word string) []int32 {
	if b.whole {
		token := word
		if b.bytewise {
			token = byteLevel(word)
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
func (b *bpe) symbols(w *worker, word string) {
	waiting := false
	for i := 0; i < len(word); {
		r, n := b.char(word, i)
		id, text := b.lookup(word, i, r)
		i += n
		switch {
		case id >= 0:
			if waiting {
				w.syms = append(w.syms, symbol{id: b.unk})
				waiting = false
			}
			w.syms = append(w.syms, symbol{id: id})
		case b.fallback != nil && b.appendBytes(w, text, r):
		case b.unk >= 0:
			if waiting && !b.fuse {
				w.syms = append(w.syms, symbol{id: b.unk})
			}
			waiting = true
		}
	}
	if waiting {
		w.syms = append(w.syms, symbol{id: b.unk})
	}
}

// lookup returns the id of the character r at word[i], or -1, and its text
// where it is decorated.
func (b *bpe) lookup(word string, i int, r rune) (id int32, text string) {
	if b.prefix == "" && b.suffix == "" {
		return b.chars.get(r), ""
	}
	_, n := b.char(word, i)
	first, last := i == 0, i+n == len(word)
	if (first || b.prefix == "") && (!last || b.suffix == "") {
		return b.chars.get(r), ""
	}
	text = string(r)
	if !first {
		text = b.prefix + text
	}
	if last {
		text += b.suffix
	}
	if id, ok := b.ids[text]; ok {
		return id, text
	}
	return -1, text
}

// appendBytes appends the tokens of the bytes of text, or of r if text is
// empty. It appends nothing and returns false unless every byte has a token.
func (b *bpe) appendBytes(w *worker, text string, r rune) bool {
	var buf [utf8.UTFMax]byte
	bytes := buf[:utf8.EncodeRune(buf[:], r)]
	if text != "" {
		bytes = []byte(text)
	}
	for _, c := range bytes {
		if b.fallback[c] < 0 {
			return false
		}
	}
	for _, c := range bytes {
		w.syms = append(w.syms, symbol{id: b.fallback[c]})
	}
	return true
}
