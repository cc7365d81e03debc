package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupts passes Ctrl-C to whoever wants it: a conversation stops its answer,
// else the program ends.
type interrupts struct {
	mu   sync.Mutex
	stop func() // nil: the program ends
}

// context returns a context that ends at Ctrl-C, SIGTERM, or when the terminal is
// gone, and a function that ends it and gives the signals back. A second Ctrl-C ends the program at once.
func (i *interrupts) context(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				if s != os.Interrupt || !i.taken() {
					cancel()
				}
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}

// take has Ctrl-C call stop, or end the program, if that is nil, until the function that it returns is called: it does then what it did before.
func (i *interrupts) take(stop func()) (release func()) {
	before := i.set(stop)
	return func() { i.set(before) }
}

// set returns what was set before.
func (i *interrupts) set(stop func()) (before func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, i.stop = i.stop, stop
	return before
}

// taken stops what wants Ctrl-C, if anything does.
func (i *interrupts) taken() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stop == nil {
		return false
	}
	i.stop()
	return true
}
