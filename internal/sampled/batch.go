package sampled

import (
	"context"
	"fmt"
	"math/rand/v2"

	"exl2/internal/model"
	"exl2/internal/tensor"
)

// A batch is rows that are sampled side by side.
type batch struct {
	*Sampler
	o       *Options
	writers []*writer
	cache   *model.Cache
	state   *model.State
	random  tensor.Tensor // F32 [1, rows]
	ids     tensor.Tensor // I32 [1, rows]
	columns int           // of the logits that are drawn from

	drawn, ends int // tokens, and those that ended a text
}

// newBatch makes n rows from number first on.
func (s *Sampler) newBatch(o *Options, first, n int) *batch {
	spec := s.loader.Spec
	b := &batch{Sampler: s, o: o, random: s.dev.Alloc(tensor.F32, 1, n), ids: s.dev.Alloc(tensor.I32, 1, n), columns: spec.Vocab}
	if o.Vocab > 0 {
		b.columns = min(o.Vocab, spec.Vocab)
	}
	for i := range n {
		w := &writer{o: o, random: rand.New(rand.NewPCG(o.Seed, uint64(first+i)))}
		w.begin()
		b.writers = append(b.writers, w)
	}
	b.cache = model.NewCache(s.dev, spec, model.WholeCache(spec, n, o.Length))
	b.state = model.NewState(s.dev, spec, model.Size{Rows: n, Logits: min(n, logitRows)}, b.cache)
	return b
}

// logitRows is how many rows get logits at a time.
const logitRows = 512

func (b *batch) free() {
	b.state.Free()
	b.cache.Free()
	b.dev.Free(b.random)
	b.dev.Free(b.ids)
}

// earlySteps is when texts are looked at: if more than a quarter of the tokens so far has
// ended one, they have three tokens or fewer.
const earlySteps = 256

// run fills all rows.
func (b *batch) run(ctx context.Context, progress func(share float64)) error {
	last := 4*b.o.Length + 64
	early := min(earlySteps, last)
	for step := 0; ; step++ {
		least := b.o.Length
		for _, w := range b.writers {
			least = min(least, len(w.row))
		}
		progress(float64(least) / float64(b.o.Length))
		switch {
		case least == b.o.Length:
			return nil
		case step == last, step == early && 4*b.ends > b.drawn:
			return fmt.Errorf("sampling text from the model: %w", ErrShort)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.step(); err != nil {
			return fmt.Errorf("sampling text from the model: %w", err)
		}
	}
}

// step draws a token for every row.
func (b *batch) step() error {
	n, d, s := len(b.writers), b.dev, b.state
	runs, ids, random := make([]model.Run, n), make([]int32, n), make([]float32, n)
	for i, w := range b.writers {
		runs[i], ids[i], random[i] = model.Run{Sequence: i, Position: w.position}, w.last, w.random.Float32()
	}
	s.Use(runs, 1, ids)
	d.Upload(b.random, tensor.BytesOf(random))
	head := b.modules[len(b.modules)-1]
	for _, m := range b.modules[:len(b.modules)-1] {
		m.Forward(s)
	}
	for lo := 0; lo < n; lo += logitRows {
		hi := min(n, lo+logitRows)
		part := s.Slice(lo, hi)
		head.Forward(part)
		d.Draw(b.ids.Columns(lo, hi), part.At(model.Logits).Columns(0, b.columns), b.random.Columns(lo, hi))
	}
	d.Download(tensor.BytesOf(ids), b.ids)
	if err := d.Sync(); err != nil {
		return err
	}
	for i, w := range b.writers {
		if w.full() {
			continue
		}
		b.drawn++
		if w.add(ids[i]) {
			b.ends++
		}
	}
	return nil
}

// A writer is one row as it is written.
type writer struct {
	o        *Options
	random   *rand.Rand
	row      []int32
	last     int32 // the token that the next one follows
	position int   // of that in its text
}

// begin begins a text.
func (w *writer) begin() { w.last, w.position = w.o.Start(w.random), 0 }

// full reports whether the row takes no more tokens.
func (w *writer) full() bool { return len(w.row) == w.o.Length }

// add takes the next token, and reports whether it ends a text. What is no token changes
// nothing, so that another one is drawn behind the same.
func (w *writer) add(id int32) (ends bool) {
	switch {
	case w.o.Unused != nil && w.o.Unused(id):
	case w.o.Special(id):
		w.begin()
		return true
	default:
		w.row = append(w.row, id)
		w.last, w.position = id, min(w.position+1, w.o.Length-1)
	}
	return false
}
