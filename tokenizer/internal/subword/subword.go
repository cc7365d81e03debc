// Package subword holds the models that turn words into ids of tokens: byte pair
// encoding and Unigram.
package subword

import (
	"strings"

	"exl2/tokenizer/internal/limit"
)

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

// Limits of a wordCache: words longer than maxCachedWord bytes are seldom met
// twice; at maxCachedWords the cache starts anew, so that it follows the text.
const (
	maxCachedWord  = 64
	maxCachedWords = 1 << 16
)

// A wordCache remembers the ids of words.
type wordCache struct {
	at  map[string]span
	ids []int32
}

// A span is a range of wordCache.ids.
type span struct{ start, end int32 }

// get returns the ids of a word.
func (c *wordCache) get(word string) ([]int32, bool) {
	s, ok := c.at[word]
	return c.ids[s.start:s.end], ok
}

// put remembers the ids of a word.
func (c *wordCache) put(word string, ids []int32) {
	if len(word) > maxCachedWord {
		return
	}
	if c.at == nil || len(c.at) >= maxCachedWords {
		c.at, c.ids = make(map[string]span), c.ids[:0]
	}
	start := int32(len(c.ids))
	c.ids = append(c.ids, ids...)
	c.at[strings.Clone(word)] = span{start, int32(len(c.ids))}
}
