package stream_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/model"
	"exl2/internal/stream"
)

// On some cores rows have lanes of their own; every thing is done once, and waves come in
// order.
func TestLanes(t *testing.T) {
	l, files, err := model.Open(filepath.Join("..", "..", "testdata", "golden", "arch", "llama"))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	const rows, length = 7, 5
	for _, cores := range []int{1, 3} {
		before := runtime.GOMAXPROCS(cores)
		p := stream.NewPass(devtest.CPU(t), l.Spec, length, 1)
		if n := p.Lanes(rows); n != cores {
			t.Errorf("%d lanes on %d cores", n, cores)
		}
		done, ctx := make([]int, rows), context.Background()
		if err := p.Side(ctx, rows, func(_ *stream.Lane, i int) error { done[i]++; return nil }); err != nil || slices.ContainsFunc(done, func(n int) bool { return n != 1 }) {
			t.Errorf("%d cores: done %v times, %v", cores, done, err)
		}
		x := newStore(t, rows, length*l.Spec.Hidden, stream.Place{})
		var order []int
		err := p.Waves(ctx, x, func(w stream.Wave) error {
			for i, lane := range w.Lanes {
				if lane.Number != i {
					t.Errorf("lane %d in place %d", lane.Number, i)
				}
				order = append(order, w.Row+i)
			}
			return w.Each(func(lane *stream.Lane, row int) error { return lane.Keep(x, row) })
		})
		if err != nil || !slices.Equal(order, []int{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("%d cores: rows %v, %v", cores, order, err)
		}
		broken := errors.New("broken")
		if err := p.Side(ctx, rows, func(_ *stream.Lane, i int) error {
			if i == 4 {
				return broken
			}
			return nil
		}); !errors.Is(err, broken) {
			t.Errorf("%d cores: error %v", cores, err)
		}
		p.Free()
		runtime.GOMAXPROCS(before)
	}
}
