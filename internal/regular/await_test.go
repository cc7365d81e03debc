package regular

import (
	"context"
	"errors"
	"io"
	"testing"
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
}
