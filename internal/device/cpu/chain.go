package cpu

import (
	"sync/atomic"

	"exl2/internal/parallel"
)

// A phase is tasks that do not depend on each other; what follows it is known
// only when all of them are done.
type phase struct {
	tasks int
	task  func(i int)
	then  func() *phase // the next phase, nil at the end
}

// runChains runs chains of phases, 0 to n-1, which start begins, atOnce of them at a time.
// A chain stays on its core, and in its cache, while others keep the other cores busy;
// cores that have no chain help with tasks.
func runChains(n, atOnce int, start func(i int) *phase) {
	var next atomic.Int64
	parallel.For(min(n, atOnce), func(int) {
		defer next.Store(int64(n)) // none is begun after a panic
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			for p := start(int(i)); p != nil; p = p.then() {
				parallel.For(p.tasks, p.task)
			}
		}
	})
}
