// Package infer runs models: it loads them, keeps their cache, samples tokens,
// generates text and measures perplexity.
//
// The nouns: an [Engine] is a loaded model with room for sequences. A [Sampler]
// turns logits into a token. A [Generation] is one prompt being continued, a
// [Session] one after another.
package infer

import (
	"errors"
	"fmt"
	"io"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// Options say how much room an Engine has.
type Options struct {
	Positions int // of a sequence
	Sequences int // at the same time; 0 means 1
	Chunk     int // positions of a prompt that are processed together; 0 leaves it to the device

	RopeScale, RopeAlpha float64 // 0 and 1 leave the model's own positions
}

// How many positions of a prompt are processed together: as many as keep a CPU's
// cores busy, and as many as make the decoding of weights that a GPU does for a
// chunk a small part of its work.
const (
	chunkCPU = 512
	chunkGPU = 2048
)

// logitRows is how many positions get logits at a time.
const logitRows = 128

// An Engine is a loaded model with room for sequences, whose tokens its caller
// gives it run by run. Its methods must not be called concurrently.
type Engine struct {
	Spec    arch.Spec
	Options Options

	files   io.Closer // what the tensors were read from
	stages  []*stage  // by device, in the order of the layers
	head    *model.Module
	pages   *model.Pages
	replays map[int]func() // recorded decode steps by number of sequences
}

// A stage is the part of a model that is on one device.
type stage struct {
	dev     device.Device
	modules []*model.Module // without the head
	state   *model.State
	cache   *model.Cache
}

// Open loads the model in dir onto devices, among which its layers are divided
// evenly. It refuses one that a device has no room for, before it loads any.
func Open(dir string, devices []device.Device, o Options) (*Engine, error) {
	l, files, err := model.Open(dir)
	if err != nil {
		return nil, err
	}
	e, err := fit(l, devices, o)
	if err != nil {
		files.Close()
		return nil, fmt.Errorf("model %s: %w", dir, err)
	}
	e.files = files
	return e, nil
}

// fit loads a model if there is room for it.
func fit(l *model.Loader, devices []device.Device, o Options) (*Engine, error) {
	if err := checkRoom(Plan(l, devices, o)); err != nil {
		return nil, err
	}
	return New(l, devices, o)
}

// New loads a model from wherever l finds its tensors.
func New(l *model.Loader, devices []device.Device, o Options) (*Engine, error) {
	o = o.defaults(devices[0])
	l.Spec.StretchRope(o.RopeScale, o.RopeAlpha)
	l.Spec.SetContext(o.Positions)
	if err := l.CheckLength(o.Positions); err != nil {
		return nil, err
	}
	e := &Engine{Spec: l.Spec, Options: o, replays: map[int]func(){}}
	if err := e.load(l, devices); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (o Options) defaults(d device.Device) Options {
	if o.Sequences == 0 {
		o.Sequences = 1
	}
	if o.Chunk == 0 {
		o.Chunk = chunkCPU
		if d.Activation() == tensor.F16 {
			o.Chunk = chunkGPU
		}
	}
	o.Chunk = max(o.Sequences, min(o.Chunk, o.Positions))
	if o.RopeScale == 0 {
		o.RopeScale = 1
	}
	if o.RopeAlpha == 0 {
		o.RopeAlpha = 1
	}
	return o
}

// size returns the state and the cache that a stage with the given number of
// layers needs.
func (o Options) size(layers int, last bool) (model.Size, model.CacheSize) {
	z := model.Size{Rows: o.Chunk}
	if last {
		z.Logits = min(max(logitRows, o.Sequences), o.Chunk)
	}
	return z, model.CacheSize{Layers: layers, Sequences: o.Sequences, Positions: o.Positions}
}

// load makes the stages.
func (e *Engine) load(l *model.Loader, devices []device.Device) error {
	if e.Options.Positions < 1 {
		return errors.New("context of no positions")
	}
	all := shares(l, len(devices))
	for i, part := range all {
		d := devices[i]
		s := &stage{dev: d}
		e.stages = append(e.stages, s)
		for _, spec := range part.modules {
			m, err := l.Load(d, spec)
			if err != nil {
				return err
			}
			s.modules = append(s.modules, m)
		}
		z, c := e.Options.size(part.layers(), i == len(all)-1)
		s.cache = model.NewCache(d, e.Spec, c)
		s.state = model.NewState(d, e.Spec, z, s.cache)
		e.pages = model.NewPages(c)
	}
	var err error
	if e.head, err = l.Load(e.last().Dev, l.Head()); err != nil {
		return err
	}
	return e.sync()
}

func (e *Engine) sync() error {
	for _, s := range e.stages {
		if err := s.dev.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the model.
func (e *Engine) Close() {
	for _, s := range e.stages {
		for _, m := range s.modules {
			m.Free()
		}
		if s.state != nil {
			s.state.Free()
		}
		if s.cache != nil {
			s.cache.Free()
		}
	}
	if e.head != nil {
		e.head.Free()
	}
	if e.files != nil {
		e.files.Close()
	}
}

// last returns the state that the head reads.
func (e *Engine) last() *model.State { return e.stages[len(e.stages)-1].state }

// BytesPerStep returns the bytes of weights that a decode step reads, and the
// bytes of the cache it reads for every position that it looks back to.
func (e *Engine) BytesPerStep() (weights, cachePerPosition int) {
	for _, s := range e.stages {
		for _, m := range s.modules {
			weights += m.Bytes()
		}
		shape := s.cache.Cache.Shape()
		cachePerPosition += s.cache.Cache.Bytes() / (shape.Pages * shape.PageRows)
	}
	return weights + e.head.Bytes(), cachePerPosition
}
