// Package infer runs models: it loads them, keeps their cache, samples tokens,
// generates text and measures perplexity.
//
// The nouns: an [Engine] is a loaded model with room for sequences. A [Sampler]
// turns logits into a token. A [Generation] is one prompt being continued, a
// [Session] one after another.
package infer

import (
	"fmt"
	"io"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/devices"
	"exl2/internal/model"
	"exl2/internal/synth"
	"exl2/internal/tensor"
)

// Options say what an Engine runs on, and how much room it has.
type Options struct {
	// Devices that share the layers: "cpu", GPU numbers as "0,1", or "all"; "" is
	// the first GPU, or the CPU where there is none, and Note is told why.
	Devices string
	Note    func(text string) // may be nil

	// Interrupted is asked before each sublayer that is loaded, and ends that with its
	// error, if it has one; it may be nil.
	Interrupted func() error

	Positions int // of a sequence
	Sequences int // at the same time; 0 means 1
	Chunk     int // positions of a prompt that are processed together; 0 leaves it to the device

	RopeScale, RopeAlpha float64 // 0 and 1 leave the model's own positions

	// KeepDecoded says whether weights that a GPU decodes for its first prompt stay decoded
	// in memory that nobody else wants, so that later prompts are faster, by the same
	// logits: "auto" or "", if that leaves more than half of what is free then; "on", as far as
	// there is memory; "off". Memory that runs out is taken from them first.
	KeepDecoded string
}

// How many positions of a prompt are processed together: as many as keep a CPU's
// cores busy, and as many as make the decoding of weights that a GPU does for a
// chunk a small part of its work: more where that leaves half of the memory free.
const (
	chunkCPU   = 512
	chunkGPU   = 2048
	chunkRoomy = 4096
)

// logitRows is how many positions get logits at a time.
const logitRows = 128

// An Engine is a loaded model with room for sequences, whose tokens its caller
// gives it run by run. Its methods must not be called concurrently.
type Engine struct {
	Options Options // with the defaults filled in

	spec     arch.Spec
	devices  devices.List // its own, to be closed with it
	files    io.Closer    // what the tensors were read from
	stages   []*stage     // by device, in the order of the layers
	head     *model.Module
	end      []*model.Module // what is left to be run for rows whose logits are wanted: the head, behind others perhaps
	pages    *model.Pages
	choice   *choice
	draft    *draftModel         // or nil
	replays  map[decode][]func() // recorded decode steps, by stage
	each     map[int]int         // how many rows of a pass of so many go through modules at once
	track    track
	furthest int // position in the pass that is next, or was last
	paces    map[decode]*pace
	depth    int  // tokens under way at a time (front.depth); 0: as their time says
	keeps    bool // what keepDecoded says has been said
}

// A stage is the part of a model that is on one device.
type stage struct {
	dev     device.Device
	modules []*model.Module // without the head
	state   *model.State
	cache   *model.Cache
	plan    Part
}

// Open loads the model in a folder. Its layers are divided evenly among the
// devices; what they have no room for is refused before anything is loaded.
func Open(dir string, o Options) (*Engine, error) {
	return o.with(func(list devices.List) (*Engine, error) { return open(dir, list, o) })
}

// Random returns what loads a random model, which is in memory only: "llama2-7b@4.0" has that
// model's shape, "config.json@4.0" that of a file, which is read, and that many bits a weight: 2 to 6, whole or half, or 8.
func Random(name string) (load func(o Options) (*Engine, error), err error) {
	shape, bits, err := synth.Parse(name)
	if err != nil {
		return nil, err
	}
	return func(o Options) (*Engine, error) {
		m, err := synth.New(shape, 0, bits)
		if err != nil {
			return nil, err
		}
		return o.with(func(list devices.List) (*Engine, error) {
			return fit(model.NewLoader(m.Spec, m), false, list, o)
		})
	}, nil
}

// with opens the devices for an Engine, which closes them.
func (o Options) with(load func(devices.List) (*Engine, error)) (*Engine, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	list, err := devices.Open(o.Devices, o.Note)
	if err != nil {
		return nil, err
	}
	e, err := load(list)
	if err != nil {
		list.Close()
		return nil, err
	}
	e.devices = list
	return e, nil
}

// open is Open on devices that are the caller's to close.
func open(dir string, list devices.List, o Options) (*Engine, error) {
	l, files, err := model.Open(dir)
	if err != nil {
		return nil, err
	}
	if o.Note != nil {
		for _, w := range l.Warnings() {
			o.Note(w)
		}
	}
	e, err := fit(l, true, list, o)
	if err != nil {
		files.Close()
		return nil, fmt.Errorf("model %s: %w", dir, err)
	}
	e.files = files
	return e, nil
}

// fit loads a model if there is room for it. Mapped says that its tensors are in
// files, which the CPU uses as they are.
func fit(l *model.Loader, mapped bool, list devices.List, o Options) (*Engine, error) {
	o = o.roomy(l, list)
	parts := plan(l, list, o)
	if err := checkRoom(parts, mapped); err != nil {
		return nil, err
	}
	o = o.defaults(list[0])
	l.Spec.ScaleRope(o.RopeScale, o.RopeAlpha)
	l.Spec.SetContext(o.Positions)
	if err := l.CheckLength(o.Positions); err != nil {
		return nil, err
	}
	e := &Engine{Options: o, spec: l.Spec, replays: map[decode][]func(){}, each: map[int]int{}, paces: map[decode]*pace{}, track: track{reached: make([]int, o.Sequences)}}
	if err := e.load(l, list, parts); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// MaxPositions bounds what all sequences may have together: more than the
// longest context of any model.
const MaxPositions = 1 << 24

// Check refuses a context that is absurd.
func (o Options) Check() error {
	sequences := max(o.Sequences, 1)
	switch {
	case o.Positions < 1:
		return fmt.Errorf("a context of %d positions, want 1 or more", o.Positions)
	case o.Positions > MaxPositions/sequences:
		return fmt.Errorf("a context of %d positions times %d sequences, want at most %d in all; ask for fewer tokens or sequences", o.Positions, sequences, MaxPositions)
	}
	return o.checkKeep()
}

// roomy returns o with a larger chunk, if that is the device's to choose and they all
// have room.
func (o Options) roomy(l *model.Loader, list devices.List) Options {
	if o.Chunk != 0 || list[0].Activation() != tensor.F16 {
		return o
	}
	wide := o
	wide.Chunk = chunkRoomy
	for _, p := range parts(l, list, wide) {
		if p.host || 2*p.Total() > p.Free {
			return o
		}
	}
	return wide
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

// size returns the state and the cache that a stage needs.
func (o Options) size(spec arch.Spec, s share, last bool) (model.Size, model.CacheSize) {
	z := model.Size{Rows: o.Chunk}
	if last {
		z.Logits = min(max(logitRows, o.Sequences), o.Chunk)
	}
	return z, model.CacheOf(spec, s.first, s.last+1, o.Sequences, o.Positions)
}

// load makes the stages.
func (e *Engine) load(l *model.Loader, list devices.List, parts []Part) error {
	all := shares(l, len(list))
	for i, part := range all {
		d := list[i]
		s := &stage{dev: d, plan: parts[i]}
		e.stages = append(e.stages, s)
		for _, spec := range part.modules {
			if err := e.Options.interrupted(); err != nil {
				return err
			}
			m, err := l.Load(d, spec)
			if err != nil {
				return err
			}
			s.modules = append(s.modules, m)
		}
		z, c := e.Options.size(e.spec, part, i == len(all)-1)
		s.cache = model.NewCache(d, e.spec, c)
		s.state = model.NewState(d, e.spec, z, s.cache)
		e.pages = model.NewPages(c)
	}
	var err error
	if e.head, err = l.Load(e.last().Dev, l.Head()); err != nil {
		return err
	}
	for i, s := range e.stages {
		if i == len(e.stages)-1 {
			model.Follow(append(slices.Clone(s.modules), e.head)...)
		} else {
			model.Follow(s.modules...)
		}
	}
	e.choice = newChoice(e.last().Dev, e.Options.Sequences)
	return e.sync()
}

func (o Options) interrupted() error {
	if o.Interrupted == nil {
		return nil
	}
	return o.Interrupted()
}

func (e *Engine) sync() error {
	for _, s := range e.stages {
		if err := s.dev.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the model and closes its devices.
func (e *Engine) Close() {
	if e.draft != nil {
		e.draft.session.Engine.Close()
	}
	for _, s := range e.stages {
		if k, ok := s.dev.(device.Keeper); ok {
			k.KeepDecoded(0)
		}
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
	if e.choice != nil {
		e.choice.free()
	}
	if e.files != nil {
		e.files.Close()
	}
	e.devices.Close()
}

// Vocab returns the number of token ids.
func (e *Engine) Vocab() int { return e.spec.Vocab }

// Devices returns what computes, in the order of the layers.
func (e *Engine) Devices() []string {
	var names []string
	for _, s := range e.stages {
		names = append(names, s.dev.Name())
	}
	return names
}

// Bandwidth measures the memory of the first device: the bytes a second that it
// moves, or 0 if it cannot tell.
func (e *Engine) Bandwidth() float64 {
	if m, ok := e.stages[0].dev.(device.Meter); ok {
		return m.Bandwidth()
	}
	return 0
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
		cachePerPosition += s.cache.PositionBytes()
	}
	return weights + e.head.Bytes(), cachePerPosition
}
