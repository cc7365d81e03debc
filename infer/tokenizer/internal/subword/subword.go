// Package subword holds the models that turn words into ids of tokens: byte pair
// encoding and Unigram.
package subword

import "exl2/infer/tokenizer/internal/limit"

// A Model turns words into ids. It is safe for concurrent use.
type Model interface {
	// Encode appends the ids of a word, which is not empty, to dst. When w.Time
	// is up it may append anything.
	Encode(w *Work, dst []int32, word string) []int32
}

// A Work holds what encoding with one model needs: buffers and a cache of words.
// It is for one goroutine.
type Work struct {
	Time *limit.Time // of the text that is being encoded

	cache wordCache
	heap  []uint64
	syms  []symbol
	path  []step
}

// MaxKept is the largest buffer, in elements, that an idle Work keeps.
const MaxKept = 1 << 16

// Idle drops large buffers.
func (w *Work) Idle() {
	w.Time = nil
	if cap(w.syms) > MaxKept || cap(w.path) > MaxKept || cap(w.heap) > MaxKept {
		w.heap, w.syms, w.path = nil, nil, nil
	}
}
