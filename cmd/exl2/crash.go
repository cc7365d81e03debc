package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"exl2/internal/mapped"
	"exl2/internal/parallel"
)

// errInternal is what a panic becomes.
var errInternal = errors.New("internal error")

// guarded runs a command. A weight file that is truncated while it is mapped is
// an error like any other; a panic, which the runtime would end with the exit
// code of a wrong command line, becomes one, and its stack goes to stderr.
func guarded(stderr *os.File, work func() error) (err error) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		stack := debug.Stack()
		if p, ok := cause.(*parallel.Panic); ok {
			cause, stack = p.Cause, p.Stack
		}
		fmt.Fprintf(stderr, "%s\n", stack)
		err = fmt.Errorf("%w, please report it with the lines above: %v", errInternal, cause)
	}()
	return mapped.Guard(work)
}
