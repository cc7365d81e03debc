// Package parallel runs loops on all cores.
package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// For calls f for 0 to n-1 on all cores and returns when all calls have. Which
// core makes which call is not determined, so each call must write its own
// part of the result.
//
// Loops may be within loops, and go on at once: all of them together have no more
// helpers than there are cores, and a helper for whom one loop has no more calls goes on
// with another.
//
// If a call panics, no more are begun, and For panics with a *Panic: what goes
// wrong on any core can be recovered by the caller. This includes the fault of
// a mapped file that has become shorter; see package mapped.
func For(n int, f func(i int)) {
	l := &loop{n: int64(n), f: f}
	if n > 1 {
		l.share()
	} else {
		l.run()
	}
	if p := l.failed.Load(); p != nil {
		panic(p)
	}
}

// Runs cuts n into runs of size and calls f for each on all cores.
func Runs(n, size int, f func(lo, hi int)) {
	For((n+size-1)/size, func(i int) { f(i*size, min(n, (i+1)*size)) })
}

// A loop is what its goroutines share.
type loop struct {
	n      int64
	f      func(i int)
	next   atomic.Int64
	failed atomic.Pointer[Panic]

	inside atomic.Int64 // helpers
	asleep atomic.Bool  // who began it waits to be woken
	wake   sync.WaitGroup
}

// share makes the calls with others.
func (l *loop) share() {
	place := everybody.open(l)
	l.run()
	if place != nil {
		everybody.close(l, place)
	}
}

func (l *loop) run() {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			l.failed.CompareAndSwap(nil, newPanic(cause))
			l.next.Store(l.n)
		}
	}()
	for i := l.next.Add(1) - 1; i < l.n; i = l.next.Add(1) - 1 {
		l.f(int(i))
	}
}

// A Panic is the first panic of a loop, and where it was.
type Panic struct {
	Cause any
	Stack []byte
}

// newPanic keeps the stack of the innermost of loops within loops.
func newPanic(cause any) *Panic {
	if p, ok := cause.(*Panic); ok {
		return p
	}
	return &Panic{cause, debug.Stack()}
}

// Error gives the cause and the stack, for a program that does not recover.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Cause, p.Stack) }

// Unwrap returns the cause if it is an error, as the runtime's are.
func (p *Panic) Unwrap() error {
	err, _ := p.Cause.(error)
	return err
}
