package stream

import (
	"context"
	"sync/atomic"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// A Lane has what rows need on their way through modules. Lanes work side by side.
type Lane struct {
	Number int
	State  *model.State

	pass   *Pass
	cache  *model.Cache
	lender *Store // whose rows the state has now, or nil
	used   int    // rows that the device knows the state is for, or 0
}

// laneBytes is about what the lanes of a pass may take beside the first: small models,
// whose operations are too small for many cores, have many, large ones have one.
const laneBytes = 256 << 20

// lanesFor returns how many lanes there may be, each of so many bytes.
func lanesFor(d device.Device, bytes int) int {
	return max(1, min(device.Goroutines(d), laneBytes/max(1, bytes)))
}

// Beside returns the bytes that the lanes of a pass over rows of the given length, most
// at a time, may take beside the first.
func Beside(d device.Device, spec arch.Spec, length, most int) int {
	bytes := laneOf(d, spec, length, most)
	return (lanesFor(d, bytes) - 1) * bytes
}

// laneOf returns the bytes of a lane.
func laneOf(d device.Device, spec arch.Spec, length, most int) int {
	z, c := Size(spec, length, most)
	return model.Bytes(spec, z, d.Activation()) + model.CacheBytes(d, spec, c)
}

// Lanes returns how many lanes work on n things.
func (p *Pass) Lanes(n int) int { return max(1, min(n, p.most)) }

// grow makes as many lanes as work on n things, and returns their number.
func (p *Pass) grow(n int) int {
	n = p.Lanes(n)
	z, c := Size(p.spec, p.Length, p.Most)
	first := len(p.lanes)
	more := max(0, n-first)
	p.lanes = append(p.lanes, make([]*Lane, more)...)
	device.SideBySide(p.Dev, more, func(i int) {
		l := &Lane{Number: first + i, pass: p, cache: model.NewCache(p.Dev, p.spec, c)}
		l.State = model.NewState(p.Dev, p.spec, z, l.cache)
		p.lanes[first+i] = l
	})
	return n
}

func (l *Lane) free() {
	l.State.Free()
	l.cache.Free()
}

// use prepares the state for n rows.
func (l *Lane) use(n int, ids []int32) {
	l.lender = nil
	if ids == nil && n == l.used {
		l.State.Again()
		return
	}
	runs := make([]model.Run, n)
	for i := range runs {
		runs[i].Sequence = i
	}
	l.State.Use(runs, l.pass.Length, ids)
	l.used = n
}

// Rows cuts n things into runs that a lane takes at once: it returns how many there are,
// and of each the first and the end.
func (p *Pass) Rows(n int) (runs int, of func(i int) (lo, hi int)) {
	return (n + p.Most - 1) / p.Most, func(i int) (lo, hi int) { return i * p.Most, min((i+1)*p.Most, n) }
}

// Load loads the n rows of src from row on into the state, and returns it.
func (l *Lane) Load(src *Store, row, n int) (*model.State, error) {
	l.use(n, nil)
	return l.State, src.Load(l.pass.Dev, l.State.At(model.Stream), row)
}

// LoadEvery loads n rows of src into the state, row and every step-th one behind it, and
// returns it.
func (l *Lane) LoadEvery(src *Store, row, step, n int) (*model.State, error) {
	l.use(n, nil)
	return l.State, src.LoadEvery(l.pass.Dev, l.State.At(model.Stream), row, step, n)
}

// Borrow is Load, but where the device has src, the state's hidden states are its rows
// themselves: what changes them changes src.
func (l *Lane) Borrow(src *Store, row, n int) (*model.State, error) {
	t, ok := src.lent(l.pass.Dev, row, n, l.State.At(model.Stream).Cols)
	if !ok {
		return l.Load(src, row, n)
	}
	l.use(n, nil)
	l.State.Lend(model.Stream, t)
	l.lender = src
	return l.State, nil
}

// Keep stores the state's hidden states in a row of dst, which is that of Borrow if dst
// is what was borrowed.
func (l *Lane) Keep(dst *Store, row int) error {
	if dst == l.lender {
		return nil
	}
	return dst.Save(l.pass.Dev, l.State.At(model.Stream), row)
}

// Side calls f for 0 to n-1: in order with one lane, and with several, side by side. It
// stops at the first error.
func (p *Pass) Side(ctx context.Context, n int, f func(l *Lane, i int) error) error {
	lanes := p.grow(n)
	var next atomic.Int64
	errs := make([]error, lanes)
	work := func(k int) {
		for errs[k] == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if errs[k] = ctx.Err(); errs[k] == nil {
				errs[k] = f(p.lanes[k], i)
			}
		}
		next.Store(int64(n))
	}
	if lanes == 1 {
		work(0)
	} else {
		parallel.For(lanes, work)
	}
	if err := first(errs); err != nil {
		return err
	}
	return p.Dev.Sync()
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Beside calls f for runs of 0 to n-1, one after the other: a run is as long as there
// are lanes, and each of its things has a lane of p and one of other.
func (p *Pass) Beside(ctx context.Context, other *Pass, n int, f func(lanes, others []*Lane, first int) error) error {
	lanes := min(p.grow(n), other.grow(n))
	for i := 0; i < n; i += lanes {
		if err := ctx.Err(); err != nil {
			return err
		}
		run := min(lanes, n-i)
		if err := f(p.lanes[:run], other.lanes[:run], i); err != nil {
			return err
		}
	}
	return p.Dev.Sync()
}

// Each calls f for 0 to n-1, all at once if there is more than one, and returns the
// first error of the list.
func Each(n int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	errs := make([]error, n)
	parallel.For(n, func(i int) { errs[i] = f(i) })
	return first(errs)
}

// A Wave is rows that are worked on together, a lane each.
type Wave struct {
	Row   int // the first
	Lanes []*Lane
}

// Waves loads the rows of src, as many as there are lanes at a time, and calls f.
func (p *Pass) Waves(ctx context.Context, src *Store, f func(w Wave) error) error {
	return p.Beside(ctx, p, src.Rows, func(lanes, _ []*Lane, row int) error {
		w := Wave{row, lanes}
		err := w.Each(func(l *Lane, row int) error {
			_, err := l.Load(src, row, 1)
			return err
		})
		if err != nil {
			return err
		}
		return f(w)
	})
}

// Each calls f for every row of the wave, side by side.
func (w Wave) Each(f func(l *Lane, row int) error) error {
	return Each(len(w.Lanes), func(i int) error { return f(w.Lanes[i], w.Row+i) })
}

// Do calls f with the states of the wave, side by side.
func (w Wave) Do(f func(s *model.State)) {
	w.Each(func(l *Lane, _ int) error {
		f(l.State)
		return nil
	})
}

// Inputs returns what a site reads in the wave, a tensor for each row; of an expert the tokens
// that it is given, or all.
func (w Wave) Inputs(s model.Site, all bool) []tensor.Tensor {
	read := s.In
	if all {
		read = s.All
	}
	xs := make([]tensor.Tensor, len(w.Lanes))
	w.Each(func(l *Lane, row int) error {
		xs[row-w.Row] = read(l.State)
		return nil
	})
	return xs
}

// A Scratch is a tensor for each lane.
type Scratch struct {
	dev  device.Device
	list []tensor.Tensor
}

// Scratch allocates tensors for the lanes that work on n things.
func (p *Pass) Scratch(n int, t tensor.Type, rows, cols int) *Scratch {
	s := &Scratch{dev: p.Dev, list: make([]tensor.Tensor, p.Lanes(n))}
	device.SideBySide(p.Dev, len(s.list), func(i int) { s.list[i] = p.Dev.Alloc(t, rows, cols) })
	return s
}

// Of returns a lane's.
func (s *Scratch) Of(l *Lane) tensor.Tensor { return s.list[l.Number] }

// Free frees the tensors.
func (s *Scratch) Free() {
	for _, t := range s.list {
		s.dev.Free(t)
	}
}
