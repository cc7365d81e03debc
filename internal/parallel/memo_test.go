package parallel

import (
	"errors"
	"testing"
)

func TestMemo(t *testing.T) {
	var m Memo[int]
	calls := 0
	get := func(err error) (int, error) {
		return m.Get("a", func(string) (int, error) { calls++; return calls, err })
	}
	for i, step := range []struct {
		clear bool
		err   error
		want  int
	}{{want: 1, err: errors.New("not there")}, {want: 2}, {want: 2}, {clear: true, want: 3}, {want: 3}} {
		if step.clear {
			m.Clear()
		}
		if v, err := get(step.err); v != step.want || !errors.Is(err, step.err) {
			t.Errorf("step %d: %d, %v, want %d, %v", i, v, err, step.want, step.err)
		}
	}
}
