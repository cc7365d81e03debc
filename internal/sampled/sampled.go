// Package sampled makes rows of tokens by sampling from a model: text as the model
// itself would write it, which is what calibration wants to know the model on.
//
// The nouns: a [Sampler] has a model on a device, all of it. A text begins with a
// token that the caller names and ends where a special token is drawn; texts one
// after another, without either, make a row.
package sampled

import (
	"context"
	"fmt"
	"math/rand/v2"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// Options say what is sampled.
type Options struct {
	Rows, Length int
	Seed         uint64

	// Start returns the first token of a text, which is not part of it.
	Start func(r *rand.Rand) int32
	// Special reports whether a token ends a text. It is not part of it.
	Special func(id int32) bool

	// Progress is called with the share that is done; it may be nil.
	Progress func(share float64)
}

// A Sampler has a model on a device.
type Sampler struct {
	dev     device.Train
	loader  *model.Loader
	modules []*model.Module
	most    int // bytes of the device's memory
}

// New loads a model, which is to take no more than most bytes of the device's memory
// with what it samples; 0 stands for all.
func New(d device.Train, l *model.Loader, most int) (*Sampler, error) {
	modules, err := l.LoadAll(d)
	return &Sampler{dev: d, loader: l, modules: modules, most: most}, err
}

// Close frees the model.
func (s *Sampler) Close() {
	for _, m := range s.modules {
		m.Free()
	}
}

// Rows samples rows at temperature 1. The same options make the same rows on the
// same device.
func (s *Sampler) Rows(ctx context.Context, o Options) ([][]int32, error) {
	var rows [][]int32
	for most := s.atOnce(o.Length); len(rows) < o.Rows; {
		n := min(most, o.Rows-len(rows))
		b := s.newBatch(&o, len(rows), n)
		err := b.run(ctx, func(share float64) {
			if o.Progress != nil {
				o.Progress((float64(len(rows)) + share*float64(n)) / float64(o.Rows))
			}
		})
		b.free()
		if err != nil {
			return nil, err
		}
		for _, w := range b.writers {
			rows = append(rows, w.row)
		}
	}
	return rows, nil
}

// What rows are sampled side by side: on a processor as many as some of its memory
// holds, up to where products do not get faster; on a GPU, whose products cost as much
// for few rows, many.
const (
	mostOnCPU = 256
	roomOnCPU = 4 << 30
	mostOnGPU = 4096
)

// atOnce returns how many rows of a length are sampled side by side. It depends on
// what the device has, not on what is free of it: products of other sizes may round
// in other ways.
func (s *Sampler) atOnce(length int) int { return atOnce(s.dev, s.loader, length, s.Bytes(), s.most) }

// atOnce is Sampler.atOnce of a model of so many bytes.
func atOnce(d device.Device, l *model.Loader, length, bytes, most int) int {
	row := rowBytes(d, l, length)
	info, own := d.(device.MemoryInfo)
	if !own {
		return max(1, min(mostOnCPU, roomOnCPU/row))
	}
	_, total := info.MemInfo()
	if most > 0 {
		total = min(total, most)
	}
	return max(1, min(mostOnGPU, (total/10*7-bytes)/row))
}

// Memory returns what a Sampler that New makes, of a model of so many bytes, takes of the
// device's memory for rows of a length, about.
func Memory(d device.Device, l *model.Loader, rows, length, bytes, most int) int {
	return bytes + min(rows, atOnce(d, l, length, bytes, most))*rowBytes(d, l, length)
}

// Bytes is the memory of the model.
func (s *Sampler) Bytes() int {
	n := 0
	for _, m := range s.modules {
		n += m.Bytes()
	}
	return n
}

// rowBytes is the memory of a row that is being sampled.
func rowBytes(d device.Device, l *model.Loader, length int) int {
	z := model.CacheSize{Layers: l.Spec.Layers, Sequences: 1, Positions: length}
	return model.CacheBytes(d, l.Spec, z) + model.Bytes(l.Spec, model.Size{Rows: 1, Logits: 1}, d.Activation())
}

// A batch is rows that are sampled side by side.
type batch struct {
	*Sampler
	o       *Options
	writers []*writer
	cache   *model.Cache
	state   *model.State
	random  tensor.Tensor // F32 [1, rows]
	ids     tensor.Tensor // I32 [1, rows]
}

// newBatch makes n rows from number first on.
func (s *Sampler) newBatch(o *Options, first, n int) *batch {
	spec := s.loader.Spec
	b := &batch{Sampler: s, o: o, random: s.dev.Alloc(tensor.F32, 1, n), ids: s.dev.Alloc(tensor.I32, 1, n)}
	for i := range n {
		w := &writer{o: o, random: rand.New(rand.NewPCG(o.Seed, uint64(first+i)))}
		w.begin()
		b.writers = append(b.writers, w)
	}
	b.cache = model.NewCache(s.dev, spec, model.CacheSize{Layers: spec.Layers, Sequences: n, Positions: o.Length})
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

// run fills all rows.
func (b *batch) run(ctx context.Context, progress func(share float64)) error {
	for step, last := 0, 4*b.o.Length+64; ; step++ {
		least := b.o.Length
		for _, w := range b.writers {
			least = min(least, len(w.row))
		}
		progress(float64(least) / float64(b.o.Length))
		switch {
		case least == b.o.Length:
			return nil
		case step == last:
			return fmt.Errorf("sampling text from the model: it ends its texts after a few tokens; --synthetic-rows 0 does without")
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
		d.Draw(b.ids.Columns(lo, hi), part.At(model.Logits), b.random.Columns(lo, hi))
	}
	d.Download(tensor.BytesOf(ids), b.ids)
	if err := d.Sync(); err != nil {
		return err
	}
	for i, w := range b.writers {
		w.add(ids[i])
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

// add takes the next token; a full row takes none.
func (w *writer) add(id int32) {
	switch {
	case len(w.row) == w.o.Length:
	case w.o.Special(id):
		w.begin()
	default:
		w.row = append(w.row, id)
		w.last, w.position = id, min(w.position+1, w.o.Length-1)
	}
}
