package regular

import "context"

// Await returns what read does, which may wait for somebody to write to a pipe or a
// terminal, or the error of ctx if that ends first. read then still waits, for nobody; it
// does not begin if ctx has ended before.
func Await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		return *new(T), err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}
