package subword

import (
	"math"
	"slices"
	"unicode/utf8"

	"exl2/infer/tokenizer/internal/trie"
)

// A Unigram cuts a word into the pieces whose scores, which are logarithms of
// probabilities, have the largest sum.
type Unigram struct {
	Pieces
	trie    *trie.Trie
	longest int // piece or character, in bytes
}

// Pieces is what a Unigram knows.
type Pieces struct {
	Texts    []string         // by id; empty ones are never found
	Scores   []float64        // by id; NaN: a piece that is not used
	Whole    map[string]int32 // what a run of unknown characters may be after all; nil: nothing
	Unk      int32
	UnkScore float64
	Single   bool        // sums are rounded to float32, as SentencePiece's are
	Words    bool        // it is given words, which are worth remembering, not whole texts
	Fallback *[256]int32 // tokens of bytes, -1 where there is none; nil: no byte fallback
}

// UnkPenalty is how much worse an unknown character is than the worst piece.
const UnkPenalty = 10

// NewUnigram returns the model of pieces.
func NewUnigram(p Pieces) *Unigram {
	u := &Unigram{Pieces: p, trie: trie.New(p.Texts), longest: utf8.UTFMax}
	for _, text := range p.Texts {
		u.longest = max(u.longest, len(text))
	}
	return u
}

// A step is the best way to reach a position of a word.
type step struct {
	score float64
	start int32 // of the piece that ends here; -1: not reached yet
	id    int32
}

// Encode appends the ids of word to dst.
func (u *Unigram) Encode(w *Work, dst []int32, word string) []int32 {
	if !u.Words {
		return u.fresh(w, dst, word)
	}
	if ids, ok := w.cache.get(word); ok {
		return append(dst, ids...)
	}
	start := len(dst)
	dst = u.fresh(w, dst, word)
	w.cache.put(word, dst[start:])
	return dst
}

// fresh encodes a word without the cache.
func (u *Unigram) fresh(w *Work, dst []int32, word string) []int32 {
	w.path = w.path[:0]
	for range len(word) + 1 {
		w.path = append(w.path, step{start: -1})
	}
	for at, n := 0, 0; at < len(word); n++ {
		if n&0xFF == 0xFF && !w.Time.Check() { // never in a word that is remembered
			return dst
		}
		if u.Single && math.Abs(w.path[at].score) > maxSum {
			rebase(w.path[at:min(at+u.longest+1, len(w.path))])
		}
		_, size := utf8.DecodeRuneInString(word[at:])
		if !u.reach(w.path, word, at, size) {
			w.path[at+size].offer(step{u.round(w.path[at].score + u.UnkScore), int32(at), u.Unk})
		}
		at += size
	}
	return u.follow(w, dst, word)
}

// reach offers every piece that begins at a position; it returns whether one
// of them is the character there, of n bytes.
func (u *Unigram) reach(path []step, word string, at, n int) (single bool) {
	here := path[at].score
	state := trie.Root
	for end := at; end < len(word); end++ {
		if state = u.trie.Step(state, word[end]); state < 0 {
			return single
		}
		id := u.trie.Value(state)
		if id < 0 || math.IsNaN(u.Scores[id]) {
			continue
		}
		path[end+1].offer(step{u.round(u.Scores[id] + here), int32(at), id})
		single = single || end+1-at == n
	}
	return single
}

// offer takes other if its score is better than that of the step so far.
func (s *step) offer(other step) {
	if s.start < 0 || other.score > s.score {
		*s = other
	}
}

// maxSum is the sum beyond which SentencePiece begins at zero again: float32
// has no digits left for the differences of larger ones.
const maxSum = 100000

// rebase subtracts the score of the first step from those of all steps reached.
func rebase(path []step) {
	offset := path[0].score
	for i := range path {
		if i == 0 || path[i].start >= 0 {
			path[i].score = float64(float32(path[i].score - offset))
		}
	}
}

// round returns a sum as precisely as sums are kept.
func (u *Unigram) round(sum float64) float64 {
	if u.Single {
		return float64(float32(sum))
	}
	return sum
}

// follow appends the ids of the best path, which is known from its end. A run
// of unknown pieces is one.
func (u *Unigram) follow(w *Work, dst []int32, word string) []int32 {
	base := len(dst)
	for end := int32(len(word)); end > 0; {
		last := w.path[end]
		if last.id != u.Unk {
			dst = append(dst, last.id)
			end = last.start
			continue
		}
		from := last.start
		for from > 0 && w.path[from].id == u.Unk {
			from = w.path[from].start
		}
		n := len(dst)
		dst = u.unknown(dst, word[from:end])
		slices.Reverse(dst[n:])
		end = from
	}
	slices.Reverse(dst[base:])
	return dst
}

// unknown appends the ids of a run of unknown pieces: all of it may be one
// piece of the vocabulary after all, or be written in bytes.
func (u *Unigram) unknown(dst []int32, text string) []int32 {
	if id, ok := u.Whole[text]; ok {
		return append(dst, id)
	}
	if u.Fallback == nil {
		return append(dst, u.Unk)
	}
	for i := range len(text) {
		if u.Fallback[text[i]] < 0 {
			return append(dst, u.Unk)
		}
	}
	for i := range len(text) {
		dst = append(dst, u.Fallback[text[i]])
	}
	return dst
}
