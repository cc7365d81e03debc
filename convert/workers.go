package convert

import (
	"context"
	"errors"
	"slices"
	"sync"

	"exl2/internal/device"
	"exl2/internal/model"
)

// A CPU has a worker for so many cores, and no more than so many: a module of a small
// model has something for some cores at any time, and for many now and then.
const coresOfWorker, workersOfCPU = 4, 4

// places lists the devices of workers, each its own, but for a CPU of many cores: it has
// several while they take little memory, and one where a profile is to tell stages apart.
func (r *run) places() []device.Quantize {
	n := min(device.Goroutines(r.dev)/coresOfWorker, workersOfCPU-r.spared, heldOnHost/max(1, r.memory.Planned()))
	if n < 2 || len(r.devices) > 1 || r.profile != nil {
		return r.devices
	}
	return slices.Repeat(r.devices, n)
}

// hire makes a run for each place, all of one job: a device, what is kept on it, and a
// reader of the source are each its own.
func (r *run) hire() error {
	for i, d := range r.places() {
		w := *r
		w.dev, w.number = d, i
		if i > 0 {
			w.src, w.profile = r.src.another(), nil // the profile is the first one's
			w.shelf = w.newShelf()
		}
		r.workers = append(r.workers, &w)
	}
	if _, ok := r.dev.(device.Peer); !ok {
		return nil
	}
	for _, w := range r.workers[1:] {
		if err := w.shelf.copy(r.shelf); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) newShelf() *shelf {
	return &shelf{dev: r.dev, loader: r.src.loader, keeps: r.memory.Weights, modules: map[string]*model.Module{}}
}

// each calls f with every worker, at once, and returns when all calls have: what
// fails first stops the others.
func each(workers []*run, f func(w *run) error) error {
	if len(workers) == 1 {
		return f(workers[0])
	}
	outer := workers[0].ctx
	ctx, stop := context.WithCancel(outer)
	defer stop()
	failed := make(chan error, len(workers))
	for _, w := range workers {
		w.ctx = ctx
		defer func() { w.ctx = outer }()
		go func() { failed <- f(w) }()
	}
	var first error
	for range workers {
		err := <-failed
		if err != nil {
			stop()
		}
		if first == nil || errors.Is(first, context.Canceled) && err != nil {
			first = err
		}
	}
	return first
}

// A board says which modules are done, and whose they are, for all workers.
type board struct {
	mu     sync.Mutex
	next   *sync.Cond
	done   map[string]bool
	worker map[string]int
}

func newBoard() *board {
	b := &board{done: map[string]bool{}, worker: map[string]int{}}
	b.next = sync.NewCond(&b.mu)
	return b
}

// claim reports whether a module is a worker's: it is the first one's that asks.
func (b *board) claim(name string, worker int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, claimed := b.worker[name]; !claimed {
		b.worker[name] = worker
	}
	return b.worker[name] == worker
}

// owns reports whether a module has become a worker's; the first one has what nobody
// has asked for.
func (b *board) owns(name string, worker int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.worker[name] == worker
}

// add says that a module is done.
func (b *board) add(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[name] = true
	b.next.Broadcast()
}

// wait waits until all modules of a list are done.
func (b *board) wait(ctx context.Context, list []model.ModuleSpec) error {
	defer context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.next.Broadcast()
	})()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, spec := range list {
		for !b.done[spec.Name] {
			if err := ctx.Err(); err != nil {
				return err
			}
			b.next.Wait()
		}
	}
	return nil
}

// A choir lets several follow progress at once, one call at a time.
type choir struct {
	mu sync.Mutex
	Progress
}

func (c *choir) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *choir) Start(stage string, steps int) { c.do(func() { c.Progress.Start(stage, steps) }) }
func (c *choir) Step(what, note string)        { c.do(func() { c.Progress.Step(what, note) }) }
func (c *choir) Skip(what string)              { c.do(func() { c.Progress.Skip(what) }) }
func (c *choir) Note(text string)              { c.do(func() { c.Progress.Note(text) }) }
func (c *choir) Warn(text string)              { c.do(func() { c.Progress.Warn(text) }) }
