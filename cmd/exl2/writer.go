package main

import (
	"fmt"
	"io"
)

// A writer is where results go: stdout. After the first failure it writes no
// more and keeps the error, which ends the command.
type writer struct {
	to  io.Writer
	err error
}

// Write writes p unless a write has failed before.
func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.to.Write(p)
	if err != nil {
		w.err = fmt.Errorf("write to stdout: %w", err)
	}
	return n, w.err
}
