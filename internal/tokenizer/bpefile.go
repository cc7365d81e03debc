package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// readBPE reads the model of type BPE of a tokenizer.json.
func readBPE(f *fields) (*bpe, vocabulary, error) {
	b := &bpe{
		ids:    map[string]int32{},
		unk:    -1,
		fuse:   f.boolOr("fuse_unk", false),
		whole:  f.boolOr("ignore_merges", false),
		prefix: f.strOr("continuing_subword_prefix", ""),
		suffix: f.strOr("end_of_word_suffix", ""),
	}
	if f.take("dropout") != nil {
		f.refuse("dropout", "anything but null")
	}
	unk, bytes := f.strOr("unk_token", ""), f.boolOr("byte_fallback", false)
	vocab, merges := f.need("vocab"), f.need("merges")
	if err := f.done(); err != nil {
		return nil, vocabulary{}, err
	}
	err := scanVocab(vocab, func(token string, id int32) error {
		b.ids[token] = id
		return nil
	})
	var v vocabulary
	if err == nil {
		v, err = newVocabulary(b.ids)
	}
	if err != nil {
		return nil, v, fmt.Errorf("%s: %w", f.at("vocab"), err)
	}
	if unk != "" {
		id, ok := b.ids[unk]
		if !ok {
			return nil, v, fmt.Errorf("%s: %q is not in the vocabulary", f.at("unk_token"), unk)
		}
		b.unk = id
	}
	if bytes {
		b.fallback = byteTokens(b.ids)
	}
	b.chars = newCharIDs(b.ids)
	if err := b.readMerges(merges); err != nil {
		return nil, v, fmt.Errorf("%s: %w", f.at("merges"), err)
	}
	return b, v, nil
}

// readMerges fills the tables of pairs; a merge's rank is its place in the list.
func (b *bpe) readMerges(data []byte) error {
	b.pairs, b.inner = newPairTable(1<<10), newPairTable(1<<10)
	cut := b.prefix == "" && b.suffix == "" && !b.whole
	rank := int32(-1)
	err := scanMerges(data, func(left, right string) error {
		rank++
		l, ok := b.ids[left]
		if !ok {
			return fmt.Errorf("%q is not in the vocabulary", left)
		}
		r, ok := b.ids[right]
		if !ok {
			return fmt.Errorf("%q is not in the vocabulary", right)
		}
		if len(right) < len(b.prefix) {
			return fmt.Errorf("%q is shorter than continuing_subword_prefix %q", right, b.prefix)
		}
		token := left + right[len(b.prefix):]
		id, ok := b.ids[token]
		if !ok {
			return fmt.Errorf("%q is not in the vocabulary", token)
		}
		b.pairs.put(l, r, merge{rank: rank, id: id})
		cut = cut && b.spelled(left, l) && b.spelled(right, r)
		noteInner(b.inner, token)
		return nil
	})
	if !cut {
		b.inner = nil
	}
	return err
}

// spelled reports whether a token always stands for the characters of its
// name, as tokens of bytes and of unknown characters do not. Only merges of
// such tokens tell from their names where merges can join characters.
func (b *bpe) spelled(token string, id int32) bool {
	_, isByte := byteToken(token)
	return id != b.unk && !(isByte && b.fallback != nil)
}

// noteInner adds the pairs of neighbouring characters of token to inner.
func noteInner(inner *pairTable, token string) {
	before, n := utf8.DecodeRuneInString(token)
	for _, r := range token[n:] {
		inner.put(before, r, merge{})
		before = r
	}
}

// splitMerge takes a merge in the encoding "a b" apart; a is empty for a comment.
func splitMerge(line string) (a, b string, err error) {
	if strings.HasPrefix(line, "#version") {
		return "", "", nil
	}
	a, b, ok := strings.Cut(line, " ")
	if !ok || a == "" || b == "" || strings.Contains(b, " ") {
		return "", "", fmt.Errorf("%q is not two tokens with a space between", line)
	}
	return a, b, nil
}
