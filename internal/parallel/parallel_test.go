package parallel

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestEveryCallOnce(t *testing.T) {
	for _, cores := range []int{1, 2, 8} {
		before := runtime.GOMAXPROCS(cores)
		for _, n := range []int{0, 1, 2, 7, 1000} {
			calls := make([]atomic.Int32, n)
			For(n, func(i int) { calls[i].Add(1) })
			for i := range calls {
				if got := calls[i].Load(); got != 1 {
					t.Errorf("%d cores: call %d of %d was made %d times", cores, i, n, got)
				}
			}
		}
		runtime.GOMAXPROCS(before)
	}
}

func TestRuns(t *testing.T) {
	seen := make([]atomic.Int32, 10)
	Runs(10, 4, func(lo, hi int) {
		if lo%4 != 0 || hi > 10 || hi-lo > 4 {
			t.Errorf("run from %d to %d", lo, hi)
		}
		for i := lo; i < hi; i++ {
			seen[i].Add(1)
		}
	})
	for i := range seen {
		if seen[i].Load() != 1 {
			t.Errorf("%d is in %d runs, want 1", i, seen[i].Load())
		}
	}
}

// TestPanics recovers a panic of each of a loop's calls, also of a loop within
// a loop.
func TestPanics(t *testing.T) {
	cause := errors.New("broken")
	fails := func(at int) func(int) {
		return func(i int) {
			if i == at {
				panic(cause)
			}
		}
	}
	for _, cores := range []int{1, 4} {
		before := runtime.GOMAXPROCS(cores)
		for at := range 20 {
			for name, loop := range map[string]func(){
				"plain":  func() { For(20, fails(at)) },
				"nested": func() { For(3, func(int) { For(20, fails(at)) }) },
			} {
				p := recovered(loop)
				if p == nil || !errors.Is(p, cause) || !strings.Contains(string(p.Stack), "TestPanics") {
					t.Errorf("%s, %d cores, call %d: recovered %v", name, cores, at, p)
				}
			}
		}
		runtime.GOMAXPROCS(before)
	}
}

func recovered(f func()) (p *Panic) {
	defer func() { p, _ = recover().(*Panic) }()
	f()
	return nil
}

// TestNoCallAfterAPanic counts calls on one core.
func TestNoCallAfterAPanic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	calls := 0
	recovered(func() {
		For(10, func(i int) {
			if calls++; i == 3 {
				panic("stop")
			}
		})
	})
	if calls != 4 {
		t.Errorf("%d calls, want 4", calls)
	}
}

// Loops within loops have no more helpers than there are cores, and find them again when
// the outer one has no more calls to begin.
func TestHelpers(t *testing.T) {
	gone()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var running, most atomic.Int64
	work := func(int) {
		now := running.Add(1)
		for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
		}
		runtime.Gosched()
		running.Add(-1)
	}
	For(6, func(int) { For(100, work) })
	if n := most.Load(); n > 4 {
		t.Errorf("%d calls at once on 4 cores", n)
	}
	if !gone() {
		t.Errorf("%d helpers long after the end", everybody.count.Load())
	}
	recovered(func() { For(6, func(int) { panic("broken") }) })
	if !gone() {
		t.Errorf("%d helpers long after a panic", everybody.count.Load())
	}
}

// gone waits until there are no helpers.
func gone() bool {
	for range 1000 {
		if everybody.count.Load() == 0 {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}
