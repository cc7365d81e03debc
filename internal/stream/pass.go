package stream

import (
	"context"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// A Pass brings rows of hidden states through modules, a batch at a time. A
// row is Length positions of one sequence.
type Pass struct {
	Dev    device.Device
	State  *model.State
	Length int
	Batch  int // rows at a time
}

// logitRows is how many positions get logits at a time.
const logitRows = 256

// NewPass allocates a state for batches of rows of the given length.
func NewPass(d device.Device, spec arch.Spec, length, batch int) *Pass {
	z := model.Size{Rows: batch * length, Logits: min(logitRows, batch*length), Sequences: batch, Positions: length, Caches: 1}
	return &Pass{Dev: d, State: model.NewState(d, spec, z), Length: length, Batch: batch}
}

// Free frees the state.
func (p *Pass) Free() { p.State.Free() }

// use prepares the state for n rows.
func (p *Pass) use(n int, ids []int32) {
	runs := make([]model.Run, n)
	for i := range runs {
		runs[i].Sequence = i
	}
	p.State.Use(runs, p.Length, ids)
}

// Embed runs the embedding over tokens and stores the result in dst.
func (p *Pass) Embed(ctx context.Context, e model.Module, tokens [][]int32, dst *Store) error {
	for lo := 0; lo < len(tokens); lo += p.Batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+p.Batch, len(tokens))
		var ids []int32
		for _, row := range tokens[lo:hi] {
			ids = append(ids, row...)
		}
		p.use(hi-lo, ids)
		e.Forward(p.State)
		if err := dst.save(p.Dev, p.State.X, lo); err != nil {
			return err
		}
	}
	return p.Dev.Sync()
}

// Each loads rows of src batch by batch into the state and calls f, which runs
// what it likes there; row is the batch's first row and n their number.
func (p *Pass) Each(ctx context.Context, src *Store, f func(s *model.State, row, n int) error) error {
	for lo := 0; lo < src.Rows; lo += p.Batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(p.Batch, src.Rows-lo)
		if err := p.At(src, lo, n, func(s *model.State) error { return f(s, lo, n) }); err != nil {
			return err
		}
	}
	return p.Dev.Sync()
}

// At loads n rows of src, from row on, into the state and calls f.
func (p *Pass) At(src *Store, row, n int, f func(s *model.State) error) error {
	p.use(n, nil)
	if err := src.Load(p.Dev, p.State.X, row); err != nil {
		return err
	}
	return f(p.State)
}

// Forward brings src through a module into dst, which may be src.
func (p *Pass) Forward(ctx context.Context, m model.Module, src, dst *Store) error {
	return p.Each(ctx, src, func(s *model.State, row, n int) error {
		m.Forward(s)
		return p.Keep(dst, row)
	})
}

// Keep stores the state's hidden states in the rows of dst from row on.
func (p *Pass) Keep(dst *Store, row int) error { return dst.save(p.Dev, p.State.X, row) }

// Logits runs the head over the positions of the state, some at a time, and
// calls f with each part: first is its first position, counted from the
// batch's first row, and rows are its logits.
func (p *Pass) Logits(head model.Module, f func(first int, logits [][]float32)) error {
	cols := p.State.Logits.Cols
	for lo := 0; lo < p.State.X.Rows; lo += logitRows {
		hi := min(lo+logitRows, p.State.X.Rows)
		part := p.State.Slice(lo, hi)
		head.Forward(part)
		flat := make([]float32, (hi-lo)*cols)
		p.Dev.Download(tensor.BytesOf(flat), part.Logits)
		if err := p.Dev.Sync(); err != nil {
			return err
		}
		rows := make([][]float32, hi-lo)
		for i := range rows {
			rows[i] = flat[i*cols : (i+1)*cols]
		}
		f(lo, rows)
	}
	return nil
}
