package cpu

import (
	"exl2/internal/parallel"
	"runtime"
	"sync"
	"sync/atomic"
)

// A phase is tasks that do not depend on each other; what follows it is known
// only when all of them are done.
type phase struct {
	tasks int
	task  func(i int)
	then  func() *phase // the next phase, nil at the end

	next, left int // tasks to begin, and to end
}

// chains runs several chains of phases on all cores. No core waits for the end
// of a phase while another chain has tasks: what one chain lacks in width the
// others fill.
type chains struct {
	start   func(i int) *phase
	n, next int // chains in all, and begun
	workers int

	mu    sync.Mutex
	more  sync.Cond
	ready []*phase // with tasks to begin, in order of time
	open  int      // chains that are begun and not ended
	stir  atomic.Int64
	dead  bool // a task has panicked
}

// runChains runs chains 0 to n-1, which start begins, atOnce of them at a time. All of
// them together have no more than width tasks for cores at once.
func runChains(n, atOnce, width int, start func(i int) *phase) {
	c := &chains{start: start, n: n, workers: min(width, runtime.GOMAXPROCS(0))}
	c.more.L = &c.mu
	for range min(n, atOnce) {
		c.open++
		c.push(&phase{tasks: 1, task: func(int) {}, then: func() *phase { return nil }})
	}
	parallel.For(c.workers, func(int) { c.work() })
}

// filled returns the first of a phase and those after it that has tasks, nil if
// there is none.
func filled(p *phase) *phase {
	for p != nil && p.tasks == 0 {
		p = p.then()
	}
	return p
}

// push makes the tasks of a phase ready.
func (c *chains) push(p *phase) {
	p.next, p.left = 0, p.tasks
	c.ready = append(c.ready, p)
	c.stir.Add(1)
	c.more.Broadcast()
}

// work takes tasks until all chains have ended.
func (c *chains) work() {
	c.mu.Lock()
	done := false
	defer func() {
		if !done { // a task has panicked, and does not hold the lock
			c.mu.Lock()
			c.dead = true
			c.more.Broadcast()
		}
		c.mu.Unlock()
	}()
	for c.open > 0 && !c.dead {
		if len(c.ready) == 0 {
			c.wait()
			continue
		}
		p, lo, hi := c.take()
		c.mu.Unlock()
		for i := lo; i < hi; i++ {
			p.task(i)
		}
		c.mu.Lock()
		if p.left -= hi - lo; p.left == 0 {
			c.follow(p)
		}
	}
	done = true
}

// take takes a share of the tasks of the oldest phase.
func (c *chains) take() (p *phase, lo, hi int) {
	p = c.ready[0]
	lo = p.next
	hi = lo + max(1, (p.tasks-lo)/(2*c.workers))
	if p.next = hi; hi == p.tasks {
		c.ready = append(c.ready[:0], c.ready[1:]...)
	}
	return p, lo, hi
}

// follow goes on after a phase: with the next one, or with another chain. What
// prepares them runs without the lock.
func (c *chains) follow(p *phase) {
	c.mu.Unlock()
	p = filled(p.then())
	c.mu.Lock()
	for p == nil && c.next < c.n {
		i := c.next
		c.next++
		c.mu.Unlock()
		p = filled(c.start(i))
		c.mu.Lock()
	}
	if p != nil {
		c.push(p)
		return
	}
	c.open--
	c.stir.Add(1)
	c.more.Broadcast()
}

// patience is how often a worker looks for tasks before it sleeps, some ten
// microseconds: most phases end sooner than a sleeper wakes.
const patience = 5000

// wait waits for tasks.
func (c *chains) wait() {
	before := c.stir.Load()
	c.mu.Unlock()
	for range patience {
		if c.stir.Load() != before {
			c.mu.Lock()
			return
		}
	}
	c.mu.Lock()
	if len(c.ready) == 0 && c.open > 0 && !c.dead && c.stir.Load() == before {
		c.more.Wait()
	}
}
