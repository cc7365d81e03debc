// Package sampled makes rows of tokens by sampling from a model: text as the model
// itself would write it, which is what calibration wants to know the model on.
//
// The nouns: a [Sampler] has a model on a device, all of it. A text begins with a
// token that the caller names and ends where a special token is drawn; texts one
// after another, without either, make a row.
package sampled

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"exl2/internal/device"
	"exl2/internal/model"
)

// ErrShort is in the chain of the error about a model that ends its texts after a few
// tokens, so that rows of them would say little.
var ErrShort = errors.New("it ends its texts after a few tokens")

// Options say what is sampled.
type Options struct {
	Rows, Length int
	Seed         uint64

	// Vocab is how many of the head's columns are tokens, from the first one on: padding
	// behind them is never drawn. 0 stands for all.
	Vocab int

	// Start returns the first token of a text, which is not part of it.
	Start func(r *rand.Rand) int32
	// Special reports whether a token ends a text. It is not part of it.
	Special func(id int32) bool
	// Unused reports whether an id below Vocab is no token, which is drawn again; it may be nil.
	Unused func(id int32) bool

	// Kept are the first rows, as Keep was given them by a run that did not end; there may be none.
	Kept [][]int32
	// Keep is called with all rows so far when some are done, but for the last ones; it may be nil.
	Keep func(rows [][]int32) error

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

// New loads the modules of a model by load. They are to take no more than most bytes of the
// device's memory with what is sampled; 0 stands for all.
func New(d device.Train, l *model.Loader, load func(model.ModuleSpec) (*model.Module, error), most int) (*Sampler, error) {
	modules, err := l.All(load)
	return &Sampler{dev: d, loader: l, modules: modules, most: most}, err
}

// Close frees the model.
func (s *Sampler) Close() {
	for _, m := range s.modules {
		m.Free()
	}
}

// Rows samples rows at temperature 1. The same options make the same rows on the
// same device. A model whose texts end at once is [ErrShort], after some hundred tokens
// of each row.
func (s *Sampler) Rows(ctx context.Context, o Options) ([][]int32, error) {
	rows := slices.Clone(o.Kept)
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
		if o.Keep != nil && len(rows) < o.Rows {
			if err := o.Keep(rows); err != nil {
				return nil, err
			}
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
	z := model.WholeCache(l.Spec, 1, length)
	return model.CacheBytes(d, l.Spec, z) + model.Bytes(l.Spec, model.Size{Rows: 1, Logits: 1}, d.Activation())
}
