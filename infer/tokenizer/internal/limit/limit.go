// Package limit bounds the time that the encoding of one text takes.
//
// Regular expressions and vocabularies come from files of strangers, and some
// make a short text take years. What may take long asks Up now and then and
// gives up when it holds; the first error sticks and comes out at the end.
package limit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A text may take base, and perMB for each megabyte of it: a hundred times
// what the slowest tokenizer takes on a slow core.
const (
	base  = 10 * time.Second
	perMB = 20 * time.Second
)

// For returns how long a text of so many bytes may take.
func For(bytes int) time.Duration {
	return base + time.Duration(float64(perMB)*float64(bytes)/1e6)
}

// A Time is what one text may take. It is for one goroutine. A nil Time is never
// up: it is for what is known to be quick.
type Time struct {
	ctx    context.Context
	cancel context.CancelFunc
	unhook func() bool
	up     atomic.Bool
	most   time.Duration
	err    error
}

// errUp is the cause of a context whose time is up.
var errUp = errors.New("time is up")

// Start returns a Time that is up after most, or when ctx ends. Stop frees it.
func Start(ctx context.Context, most time.Duration) *Time {
	t := &Time{most: most}
	t.ctx, t.cancel = context.WithTimeoutCause(ctx, most, errUp)
	t.up.Store(ctx.Err() != nil)
	t.unhook = context.AfterFunc(t.ctx, func() { t.up.Store(true) })
	return t
}

// Up reports whether it is time to give up. It costs next to nothing.
func (t *Time) Up() bool { return t != nil && t.up.Load() }

// Fail gives up because of err, unless there is an earlier reason.
func (t *Time) Fail(err error) {
	if t == nil {
		return
	}
	if t.err == nil {
		t.err = err
	}
	t.up.Store(true)
}

// Late is the reason for giving up when Up holds and nothing has failed: the
// context's, or that the text takes too long.
func (t *Time) Late() error {
	if cause := context.Cause(t.ctx); cause != nil && cause != errUp {
		return cause
	}
	return fmt.Errorf("takes longer than %v", t.most.Round(time.Second))
}

// Check reports whether nothing asks to give up. If something does, it fails.
func (t *Time) Check() bool {
	if !t.Up() {
		return true
	}
	t.Fail(t.Late())
	return false
}

// Stop ends the Time and returns why something gave up, if anything had to.
func (t *Time) Stop() error {
	t.unhook()
	t.cancel()
	return t.err
}
