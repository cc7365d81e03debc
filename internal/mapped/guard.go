package mapped

import (
	"errors"
	"runtime/debug"
)

// Guard calls work, and returns an error that wraps ErrTruncated if work
// touches a page that a mapped file has lost, or if a file that it has read
// became shorter without that. Every other panic goes on.
//
// A fault can be recovered by the goroutine that has it alone. Loops of
// package parallel hand it on to their caller; other goroutines that work
// starts need a Guard of their own.
func Guard(work func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			f := faulted(cause)
			if f == nil {
				panic(cause)
			}
			err = f.truncated()
		}
	}()
	all.Lock()
	all.err = nil
	all.Unlock()
	if err = work(); err == nil {
		err = shortened()
	}
	return err
}

// faulted returns the file whose fault made a panic, or nil.
func faulted(cause any) *File {
	err, ok := cause.(error)
	var fault interface{ Addr() uintptr }
	if !ok || !errors.As(err, &fault) {
		return nil
	}
	all.Lock()
	defer all.Unlock()
	return find(fault.Addr())
}

// shortened returns an error if a file that is mapped, or one that was closed
// since Guard began, has become shorter.
func shortened() error {
	all.Lock()
	defer all.Unlock()
	if all.err != nil {
		return all.err
	}
	for _, f := range all.files {
		if err := f.check(); errors.Is(err, ErrTruncated) {
			return err
		}
	}
	return nil
}
