package regular

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// What is read comes back, and who waits for what never comes can be interrupted.
func TestAwait(t *testing.T) {
	if text, err := Await(t.Context(), func() (string, error) { return "text", io.EOF }); text != "text" || err != io.EOF {
		t.Errorf("%q, %v", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	pipe, writer := io.Pipe()
	defer writer.Close()
	go cancel()
	if text, err := Await(ctx, func() ([]byte, error) { return ReadAll(pipe, 10) }); text != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v, want that it was interrupted", text, err)
	}
	begun := make(chan bool, 1)
	if _, err := Await(ctx, func() (string, error) { begun <- true; return "", nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was interrupted before", err)
	}
	select {
	case <-begun:
		t.Error("what was interrupted before it began has begun")
	case <-time.After(50 * time.Millisecond):
	}
}
