package tokenizer

import (
	"runtime"
	"sync"

	"exl2/infer/tokenizer/internal/split"
	"exl2/infer/tokenizer/internal/subword"
)

// A worker holds what one call of Encode needs. Workers are reused by later
// calls, never shared by two at a time.
type worker struct {
	t    *Tokenizer
	ids  []int32 // the result so far
	work subword.Work
	next []func(split.Piece) // next[i] passes a piece on from splitter i
}

// run passes a piece through splitter i and those after it to the model.
func (w *worker) run(i int, p split.Piece) {
	if p.Text == "" {
		return
	}
	if !w.work.Time.Check() {
		return
	}
	if i == len(w.t.split) {
		w.ids = w.t.model.Encode(&w.work, w.ids, p.Text)
		return
	}
	w.t.split[i].Split(w.work.Time, p, w.next[i])
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
		w.next = append(w.next, func(p split.Piece) { w.run(i+1, p) })
	}
	return w
}

// put makes w free for later calls.
func (s *workers) put(w *worker) {
	w.work.Idle()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < runtime.GOMAXPROCS(0) {
		s.free = append(s.free, w)
	}
}
