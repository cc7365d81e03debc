package sentencepiece

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/subword"
	"exl2/infer/tokenizer/internal/trie"
)

// pieceBPE is SentencePiece's model of type BPE. Pieces that the user defined
// are kept whole; in what lies between them a pair of symbols merges if their
// texts together are a piece, of all pairs the one whose piece has the best
// score. Written as ranked merges of pairs that is what bpe does.
type pieceBPE struct {
	merges  *subword.BPE
	ids     map[string]int32
	users   *trie.Trie // nil: there are none
	userIDs []int32
	pieces  int32  // how many there are; extra[i] has the symbol pieces+i
	extra   []rune // characters of pieces that are no pieces themselves
}

// bpe returns the model of type BPE.
func (m *File) bpe() (subword.Model, error) {
	r := subword.Rules{Fuse: true}
	var err error
	if r.Unk, err = m.unknown(); err != nil {
		return nil, err
	}
	if r.Fallback, err = m.bytePieces(); err != nil {
		return nil, err
	}
	b := &pieceBPE{pieces: int32(len(m.pieces)), ids: make(map[string]int32, len(m.pieces))}
	var users []string
	for id, p := range m.pieces {
		switch {
		case p.kind == unusedPiece:
			return nil, fmt.Errorf("pieces[%d].type: an unused piece in a model of type BPE: %w", id, jsonfields.ErrUnsupported)
		case p.kind == userPiece:
			users, b.userIDs = append(users, p.text), append(b.userIDs, int32(id))
		case p.kind == normalPiece:
			b.ids[p.text] = int32(id)
		}
	}
	if len(users) > 0 {
		b.users = trie.New(users)
	}
	b.merges = subword.NewBPE(b.ids, r)
	for _, p := range m.byScore() {
		b.addMerges(m.pieces[p.id].text, p)
		b.merges.Joins(m.pieces[p.id].text)
	}
	return b, nil
}

// A ranked is a piece with the rank of its score: 0 is the best, equal scores
// have equal ranks.
type ranked struct{ id, rank int32 }

// byScore ranks the normal pieces.
func (m *File) byScore() []ranked {
	var list []ranked
	for id, p := range m.pieces {
		if p.kind == normalPiece {
			list = append(list, ranked{id: int32(id)})
		}
	}
	score := func(r ranked) float32 { return m.pieces[r.id].score }
	slices.SortStableFunc(list, func(a, b ranked) int {
		switch x, y := score(a), score(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for i := 1; i < len(list); i++ {
		list[i].rank = list[i-1].rank
		if score(list[i]) != score(list[i-1]) {
			list[i].rank++
		}
	}
	return list
}

// addMerges adds the pairs of symbols that are a piece's text when put together.
func (b *pieceBPE) addMerges(text string, to ranked) {
	_, first := utf8.DecodeRuneInString(text)
	for i := range text {
		if i < first {
			continue
		}
		left, ok := b.symbol(text[:i])
		if !ok {
			continue
		}
		if right, ok := b.symbol(text[i:]); ok {
			b.merges.MergeIDs(left, right, to.rank, to.id)
		}
	}
}

// symbol returns the id of a symbol: a piece, or a character that is none.
func (b *pieceBPE) symbol(text string) (int32, bool) {
	if id, ok := b.ids[text]; ok {
		return id, true
	}
	r, n := utf8.DecodeRuneInString(text)
	if n < len(text) {
		return 0, false
	}
	id := b.merges.Char(r)
	if id < 0 {
		id = b.pieces + int32(len(b.extra))
		b.extra = append(b.extra, r)
		b.merges.SetChar(r, id)
	}
	return id, true
}

// Encode appends the ids of a text.
func (b *pieceBPE) Encode(w *subword.Work, dst []int32, text string) []int32 {
	start := 0
	for i := 0; b.users != nil && i < len(text); {
		n, length := b.users.Longest(text[i:])
		if n < 0 {
			_, length = utf8.DecodeRuneInString(text[i:])
		} else {
			dst = b.between(w, dst, text[start:i])
			dst = append(dst, b.userIDs[n])
			start = i + length
		}
		i += length
	}
	return b.between(w, dst, text[start:])
}

// between appends the ids of text without pieces that the user defined.
func (b *pieceBPE) between(w *subword.Work, dst []int32, text string) []int32 {
	if text == "" {
		return dst
	}
	start := len(dst)
	dst = b.merges.Encode(w, dst, text)
	if len(b.extra) == 0 {
		return dst
	}
	symbols := slices.Clone(dst[start:])
	dst = dst[:start]
	for _, id := range symbols {
		if id < b.pieces {
			dst = b.append(dst, start, id)
			continue
		}
		if b.merges.Fallback == nil {
			dst = b.append(dst, start, b.merges.Unk)
			continue
		}
		for _, c := range []byte(string(b.extra[id-b.pieces])) {
			dst = append(dst, b.merges.Fallback[c])
		}
	}
	return dst
}

// append appends an id to the ids that begin at start, unless it is a second
// unknown piece in a row.
func (b *pieceBPE) append(dst []int32, start int, id int32) []int32 {
	if n := len(dst); id == b.merges.Unk && n > start && dst[n-1] == id {
		return dst
	}
	return append(dst, id)
}
