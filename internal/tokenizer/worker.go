package tokenizer

import (
	"runtime"
	"strings"
	"sync"
)

// A worker holds what one call of Encode needs: buffers and a cache of words.
// Workers are reused by later calls, never shared by two at a time.
type worker struct {
	t     *Tokenizer
	ids   []int32 // the result so far
	cache wordCache
	heap  []uint64
	syms  []symbol
	runes []rune
	bytes []byte
	path  []step
	next  []func(piece) // next[i] passes a piece on from splitter i
}

// run passes a piece through splitter i and those after it to the model.
func (w *worker) run(i int, p piece) {
	if p.text == "" {
		return
	}
	if i == len(w.t.split) {
		w.ids = w.t.model.encode(w, w.ids, p.text)
		return
	}
	w.t.split[i].split(p, w.next[i])
}

// workers is a free list of workers.
type workers struct {
	mu   sync.Mutex
	free []*worker
}

// get returns a worker for t that nobody else uses.
func (s *workers) get(t *Tokenizer) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		w := s.free[n-1]
		s.free = s.free[:n-1]
		return w
	}
	w := &worker{t: t}
	for i := range t.split {
		w.next = append(w.next, func(p piece) { w.run(i+1, p) })
	}
	return w
}

// maxKept is the largest buffer, in elements, that an idle worker keeps.
const maxKept = 1 << 16

// put makes w free for later calls.
func (s *workers) put(w *worker) {
	if cap(w.syms) > maxKept || cap(w.runes) > maxKept || cap(w.path) > maxKept || cap(w.heap) > maxKept {
		w.heap, w.syms, w.runes, w.bytes, w.path = nil, nil, nil, nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < runtime.GOMAXPROCS(0) {
		s.free = append(s.free, w)
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
