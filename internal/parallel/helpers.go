package parallel

import (
	"runtime"
	"sync/atomic"
)

// helpers are the goroutines that help in loops. They come when a loop begins, and go
// when for some time there has been nothing to do: to wake a core that sleeps takes
// longer than many loops do, above all on virtual machines.
type helpers struct {
	loops   [64]atomic.Pointer[loop] // that may have calls to begin, older ones rather first
	opened  atomic.Int64             // loops so far
	count   atomic.Int64             // helpers that work or look for work
	looking atomic.Int64             // of them, those that look for work
	blocked atomic.Int64             // goroutines that sleep until a loop of theirs has ended
	cores   atomic.Int64             // as of when somebody last had time to ask
}

// everybody is all helpers of the program.
var everybody helpers

// open lets helpers into a loop, if there may be any, and returns its place.
func (h *helpers) open(l *loop) *atomic.Pointer[loop] {
	if h.count.Load() == 0 {
		h.cores.Store(int64(runtime.GOMAXPROCS(0)))
	}
	if h.most() <= 0 {
		return nil
	}
	for i := range h.loops {
		if place := &h.loops[i]; place.Load() == nil && place.CompareAndSwap(nil, l) {
			h.opened.Add(1)
			h.start(l.n - 1 - h.looking.Load())
			return place
		}
	}
	return nil
}

// most is how many helpers there are cores for, beside the goroutine that began the first
// loop.
func (h *helpers) most() int64 { return h.cores.Load() - 1 + h.blocked.Load() }

// start starts helpers, as far as there are cores for them.
func (h *helpers) start(n int64) {
	for ; n > 0; n-- {
		now := h.count.Load()
		if now >= h.most() {
			return
		}
		if h.count.CompareAndSwap(now, now+1) {
			go h.help()
		}
	}
}

// close ends a loop all of whose calls have begun: it returns when they have ended.
func (h *helpers) close(l *loop, place *atomic.Pointer[loop]) {
	place.Store(nil)
	for waited := 0; waited < patience; waited += glance {
		if patient(glance, func() bool { return l.inside.Load() == 0 }) {
			return
		}
		if h.first() != nil { // somebody else is to have this core
			break
		}
	}
	h.blocked.Add(1)
	if h.first() != nil {
		h.start(1)
	}
	l.sleep()
	h.blocked.Add(-1)
}

// help helps in loops until there is nothing to do.
func (h *helpers) help() {
	for h.count.Load() <= h.most() {
		seen := h.opened.Load()
		if place := h.first(); place != nil {
			place.Load().help(place)
			continue
		}
		h.cores.Store(int64(runtime.GOMAXPROCS(0)))
		h.looking.Add(1)
		patient(patience, func() bool { return h.opened.Load() != seen })
		h.looking.Add(-1)
		if h.opened.Load() == seen {
			break
		}
	}
	h.count.Add(-1)
}

// first returns the place of the first loop that has calls to begin, nil if there is none.
func (h *helpers) first() *atomic.Pointer[loop] {
	for i := range h.loops {
		if l := h.loops[i].Load(); l != nil && !l.begun() {
			return &h.loops[i]
		}
	}
	return nil
}

// begun reports whether all calls have begun.
func (l *loop) begun() bool { return l.next.Load() >= l.n }

// help makes calls, if the loop has not been closed. Who closes it sees that somebody is
// inside, or is seen.
func (l *loop) help(place *atomic.Pointer[loop]) {
	if l == nil {
		return
	}
	l.inside.Add(1)
	if place.Load() == l {
		l.run()
	}
	if l.inside.Add(-1) == 0 && l.asleep.CompareAndSwap(true, false) {
		l.wake.Done()
	}
}

// sleep returns when nobody is inside.
func (l *loop) sleep() {
	l.wake.Add(1)
	l.asleep.Store(true)
	if l.inside.Load() == 0 && l.asleep.CompareAndSwap(true, false) {
		l.wake.Done()
	}
	l.wake.Wait()
}

// patience is how often one looks before one sleeps: some 300 microseconds, several times
// what it takes to wake.
// A glance is a part of it.
const patience, glance = 200000, 20000

// patient looks at a condition so many times, and reports whether it has come to hold.
func patient(times int, holds func() bool) bool {
	for range times {
		if holds() {
			return true
		}
	}
	return false
}
