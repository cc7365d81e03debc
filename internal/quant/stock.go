package quant

import (
	"slices"
	"sync"

	"exl2/internal/exl2"
)

// A Stock is the host's memory of matrices that nobody needs any more, for others:
// memory that is used for the first time costs more than what is copied to it. It may be
// used by several goroutines; a nil Stock has nothing.
type Stock struct {
	mu    sync.Mutex
	words [2][][]uint32 // of those that were kept last, and before: modules of two kinds take turns
}

// Keep takes the words of matrices, and forgets what is left of those before the last.
func (s *Stock) Keep(list []*exl2.Matrix) {
	words := make([][]uint32, len(list))
	for i, m := range list {
		words[i] = m.Words
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words = [2][][]uint32{words, s.words[0]}
}

// take returns n words, which may be anything.
func (s *Stock) take(n int) []uint32 {
	if s == nil {
		return make([]uint32, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for age := range s.words {
		for i, w := range s.words[age] {
			if cap(w) >= n && cap(w) < 2*n {
				s.words[age] = slices.Delete(s.words[age], i, i+1)
				return w[:n]
			}
		}
	}
	return make([]uint32, n)
}
