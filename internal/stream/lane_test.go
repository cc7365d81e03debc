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

// Where the device has the rows, a state that borrows them changes them; elsewhere it has
// copies until they are kept.
func TestBorrow(t *testing.T) {
	l, files, err := model.Open(filepath.Join("..", "..", "testdata", "golden", "arch", "llama"))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	const rows, length = 4, 3
	d := pinner{devtest.Counting(devtest.CPU(t)), false}
	p := stream.NewPass(d, l.Spec, length, 2)
	defer p.Free()
	for name, place := range places(t, d) {
		near := name == "on the device"
		x := newStore(t, rows, length*l.Spec.Hidden, place)
		first := make([]float32, x.Floats)
		at := func(row int) float32 {
			if err := x.Read(first, row); err != nil {
				t.Fatal(err)
			}
			return first[len(first)-1]
		}
		twos := make([]float32, rows*x.Floats)
		for i := range twos {
			twos[i] = 2
		}
		if err := x.Write(twos, 0); err != nil {
			t.Fatal(err)
		}
		err := p.Side(context.Background(), 1, func(lane *stream.Lane, _ int) error {
			s, err := lane.Borrow(x, 1, 2)
			if err != nil {
				return err
			}
			d.AddScaled(s.At(model.Stream), s.At(model.Stream), 1)
			if changed := at(2) == 4; changed != near {
				t.Errorf("%s: changed at once is %v", name, changed)
			}
			return lane.Keep(x, 1)
		})
		if got := []float32{at(0), at(1), at(2), at(3)}; err != nil || !slices.Equal(got, []float32{2, 4, 4, 2}) {
			t.Errorf("%s: rows are %v, %v", name, got, err)
		}
	}
}
