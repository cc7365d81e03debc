package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram cuts a word into the pieces whose scores, which are logarithms of
// probabilities, have the largest sum.
type unigram struct {
	pieces   *trie
	scores   []float64        // by id; NaN: a piece that is not used
	ids      map[string]int32 // nil: a run of unknown characters is never one piece
	unk      int32
	unkScore float64
	longest  int         // piece or character, in bytes
	single   bool        // sums are rounded to float32, as SentencePiece's are
	cache    bool        // words are worth remembering
	fallback *[256]int32 // tokens of bytes; nil: no byte fallback
}

// unkPenalty is how much worse an unknown character is than the worst piece.
const unkPenalty = 10

// A step is the best way to reach a position of a word.
type step struct {
	score float64
	start int32 // of the piece that ends here; -1: not reached yet
	id    int32
}

// setPieces builds the trie of the pieces, by id; empty texts are never found.
func (u *unigram) setPieces(texts []string) {
	u.pieces, u.longest = newTrie(texts), utf8.UTFMax
	for _, text := range texts {
		u.longest = max(u.longest, len(text))
	}
}

// encode appends the ids of word to dst.
func (u *unigram) encode(w *worker, dst []int32, word string) []int32 {
	if !u.cache {
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
func (u *unigram) fresh(w *worker, dst []int32, word string) []int32 {
	w.path = w.path[:0]
	for range len(word) + 1 {
		w.path = append(w.path, step{start: -1})
	}
	for at := 0; at < len(word); {
		if u.single && math.Abs(w.path[at].score) > maxSum {
			rebase(w.path[at:min(at+u.longest+1, len(w.path))])
		}
		_, n := utf8.DecodeRuneInString(word[at:])
		if !u.reach(w.path, word, at, n) {
			w.path[at+n].offer(step{u.round(w.path[at].score + u.unkScore), int32(at), u.unk})
		}
		at += n
	}
	return u.follow(w, dst, word)
}

// reach offers every piece that begins at a position; it returns whether one
// of them is the character there, of n bytes.
func (u *unigram) reach(path []step, word string, at, n int) (single bool) {
	here := path[at].score
	state := root
	for end := at; end < len(word); end++ {
		if state = u.pieces.step(state, word[end]); state < 0 {
			return single
		}
		id := u.pieces.value(state)
		if id < 0 || math.IsNaN(u.scores[id]) {
			continue
		}
		path[end+1].offer(step{u.round(u.scores[id] + here), int32(at), id})
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
func (u *unigram) round(sum float64) float64 {
	if u.single {
		return float64(float32(sum))
	}
	return sum
}

// follow appends the ids of the best path, which is known from its end. A run
// of unknown pieces is one.
func (u *unigram) follow(w *worker, dst []int32, word string) []int32 {
	base := len(dst)
	for end := int32(len(word)); end > 0; {
		last := w.path[end]
		if last.id != u.unk {
			dst = append(dst, last.id)
			end = last.start
			continue
		}
		from := last.start
		for from > 0 && w.path[from].id == u.unk {
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
func (u *unigram) unknown(dst []int32, text string) []int32 {
	if id, ok := u.ids[text]; ok {
		return append(dst, id)
	}
	if u.fallback == nil {
		return append(dst, u.unk)
	}
	for i := range len(text) {
		if u.fallback[text[i]] < 0 {
			return append(dst, u.unk)
		}
	}
	for i := range len(text) {
		dst = append(dst, u.fallback[text[i]])
	}
	return dst
}

// readUnigram reads the model of type Unigram of a tokenizer.json.
func readUnigram(f *fields) (*unigram, vocabulary, error) {
	unk := int32(-1)
	f.read("unk_id", f.need("unk_id"), &unk)
	bytes := f.boolOr("byte_fallback", false)
	vocab := f.need("vocab")
	if err := f.done(); err != nil {
		return nil, vocabulary{}, err
	}
	u := &unigram{ids: map[string]int32{}, unk: unk, cache: true}
	var pieces []string
	lowest := math.Inf(1)
	err := scanScores(vocab, func(piece string, score float64) error {
		u.ids[piece] = int32(len(pieces))
		pieces = append(pieces, piece)
		u.scores = append(u.scores, score)
		lowest = min(lowest, score)
		return checkToken(piece)
	})
	if err != nil {
		return nil, vocabulary{}, fmt.Errorf("%s: %w", f.at("vocab"), err)
	}
	if unk < 0 || int(unk) >= len(pieces) {
		return nil, vocabulary{}, fmt.Errorf("%s: %d is not the id of one of the %d pieces", f.at("unk_id"), unk, len(pieces))
	}
	u.unkScore = lowest - unkPenalty
	u.setPieces(pieces)
	if bytes {
		u.fallback = byteTokens(u.ids)
	}
	v, err := newVocabulary(u.ids)
	v.size = int32(len(pieces))
	for id, piece := range pieces { // pieces listed twice keep both ids for decoding
		v.tokens[id], v.known[id] = piece, true
	}
	return u, v, err
}
