// Package infer runs models: it loads them, keeps their cache, samples tokens,
// generates text and measures perplexity.
//
// The nouns: an [Engine] is a loaded model with room for sequences. A [Sampler]
// turns logits into a token. A [Generation] is one prompt being continued.
package infer

import (
	"errors"
	"fmt"
	"io"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/safetensors"
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

// An Engine is a loaded model. Its methods must not be called concurrently.
type Engine struct {
	Spec    arch.Spec
	Options Options

	files   io.Closer // what the tensors were read from
	stages  []*stage  // by device, in the order of the layers
	head    model.Module
	replays map[int]func() // recorded decode steps by number of sequences
}

// A stage is the part of a model that is on one device.
type stage struct {
	dev     device.Device
	modules []model.Module // without the head
	state   *model.State
}

// Open loads the model in dir onto devices, among which its layers are divided
// evenly. It refuses one that a device has no room for, before it loads any.
func Open(dir string, devices []device.Device, o Options) (*Engine, error) {
	l, files, err := model.Open(dir)
	if err != nil {
		return nil, err
	}
	e, err := fit(l, files, devices, o)
	if err != nil {
		files.Close()
		return nil, fmt.Errorf("model %s: %w", dir, err)
	}
	e.files = files
	return e, nil
}

// fit loads a model if there is room for it.
func fit(l *model.Loader, files *safetensors.Set, devices []device.Device, o Options) (*Engine, error) {
	if err := checkRoom(Plan(l.Spec, files, devices, o)); err != nil {
		return nil, err
	}
	return New(l, devices, o)
}

// New loads a model from wherever l finds its tensors.
func New(l *model.Loader, devices []device.Device, o Options) (*Engine, error) {
	o = o.defaults(devices[0])
	l.Spec.StretchRope(o.RopeScale, o.RopeAlpha)
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

// size returns the state that a stage with the given number of layers needs.
func (o Options) size(layers int, last bool) model.Size {
	z := model.Size{Rows: o.Chunk, Sequences: o.Sequences, Positions: o.Positions, Caches: layers}
	if last {
		z.Logits = min(max(logitRows, o.Sequences), o.Chunk)
	}
	return z
}

// load makes the stages.
func (e *Engine) load(l *model.Loader, devices []device.Device) error {
	if e.Options.Positions < 1 {
		return errors.New("context of no positions")
	}
	all := shares(e.Spec.Layers, len(devices))
	for i, part := range all {
		d := devices[i]
		s := &stage{dev: d}
		e.stages = append(e.stages, s)
		first, end := 2*part.first+1, 2*part.end+1
		if i == 0 {
			first = 0
		}
		for k := first; k < end; k++ {
			m, err := l.Load(d, k)
			if err != nil {
				return err
			}
			s.modules = append(s.modules, m)
		}
		s.state = model.NewState(d, e.Spec, e.Options.size(part.end-part.first, i == len(all)-1))
	}
	last := e.stages[len(all)-1]
	var err error
	if e.head, err = l.Load(last.dev, l.Modules()-1); err != nil {
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
	}
	if e.head != nil {
		e.head.Free()
	}
	if e.files != nil {
		e.files.Close()
	}
}

// use prepares every stage for a pass.
func (e *Engine) use(runs []model.Run, span int, ids []int32) {
	for i, s := range e.stages {
		if i == 0 {
			s.state.Use(runs, span, ids)
		} else {
			s.state.Use(runs, span, nil)
		}
	}
}

// body runs all modules but the head.
func (e *Engine) body() {
	for i, s := range e.stages {
		if i > 0 {
			hand(s.state, e.stages[i-1].state)
		}
		for _, m := range s.modules {
			m.Forward(s.state)
		}
	}
}

// hand copies the residual stream from one device to another.
func hand(to, from *model.State) {
	if p, ok := from.Dev.(device.Peer); ok && p.CopyTo(to.Dev, to.X, from.X) {
		return
	}
	buf := make([]byte, from.X.Bytes())
	from.Dev.Download(buf, from.X)
	to.Dev.Upload(to.X, buf)
}

func (e *Engine) last() *model.State { return e.stages[len(e.stages)-1].state }

// Prefill processes ids at positions from first on of a sequence and returns
// the logits of the last of them.
func (e *Engine) Prefill(sequence, first int, ids []int32) ([]float32, error) {
	if first+len(ids) > e.Options.Positions {
		return nil, fmt.Errorf("%d positions do not fit the context of %d; give a larger --length", first+len(ids), e.Options.Positions)
	}
	rows := 0
	for lo := 0; lo < len(ids); lo += e.Options.Chunk {
		part := ids[lo:min(lo+e.Options.Chunk, len(ids))]
		e.use([]model.Run{{Sequence: sequence, Position: first + lo}}, len(part), part)
		e.body()
		rows = len(part)
	}
	logits, err := e.logits(rows-1, rows)
	if err != nil {
		return nil, err
	}
	return logits[0], nil
}

// logits runs the head over rows lo to hi of the last pass.
func (e *Engine) logits(lo, hi int) ([][]float32, error) {
	part := e.last().Slice(lo, hi)
	e.head.Forward(part)
	return download(part.Dev, part.Logits)
}

// download brings a matrix of float32 to the host.
func download(d device.Device, t tensor.Tensor) ([][]float32, error) {
	flat := make([]float32, t.Rows*t.Cols)
	d.Download(tensor.BytesOf(flat), t)
	rows := make([][]float32, t.Rows)
	for i := range rows {
		rows[i] = flat[i*t.Cols : (i+1)*t.Cols]
	}
	if err := d.Sync(); err != nil {
		return nil, err
	}
	return rows, finite(rows)
}

// Logits processes ids as a sequence of their own and calls f with the logits
// of all positions, some at a time: first is the position of the first row.
func (e *Engine) Logits(ids []int32, f func(first int, rows [][]float32)) error {
	for lo := 0; lo < len(ids); lo += e.Options.Chunk {
		part := ids[lo:min(lo+e.Options.Chunk, len(ids))]
		e.use([]model.Run{{Position: lo}}, len(part), part)
		e.body()
		step := e.Options.size(0, true).Logits
		for r := 0; r < len(part); r += step {
			rows, err := e.logits(r, min(r+step, len(part)))
			if err != nil {
				return err
			}
			f(lo+r, rows)
		}
	}
	return nil
}

// Step processes one token of each of the first len(ids) sequences, at the
// given positions, and returns their logits.
func (e *Engine) Step(ids []int32, positions []int) ([][]float32, error) {
	runs := make([]model.Run, len(ids))
	for i, p := range positions {
		if p >= e.Options.Positions {
			return nil, fmt.Errorf("position %d does not fit the context of %d; give a larger --length", p, e.Options.Positions)
		}
		runs[i] = model.Run{Sequence: i, Position: p}
	}
	e.use(runs, 1, ids)
	if err := e.replay(len(ids)); err != nil {
		return nil, err
	}
	s := e.last()
	return download(s.Dev, s.Logits)
}

// replay runs the recorded decode step for n sequences, recording it first if
// need be.
func (e *Engine) replay(n int) error {
	if f := e.replays[n]; f != nil {
		f()
		return nil
	}
	step := func() {
		e.body()
		e.head.Forward(e.last())
	}
	if len(e.stages) > 1 { // states are handed over through the host
		step()
		return e.sync()
	}
	f, err := e.stages[0].dev.Record(step)
	if err != nil {
		return err
	}
	e.replays[n] = f
	return nil
}

// BytesPerStep returns the bytes of weights that a decode step reads, and the
// bytes of the cache it reads for every position that it looks back to.
func (e *Engine) BytesPerStep() (weights, cachePerPosition int) {
	for _, s := range e.stages {
		for _, m := range s.modules {
			weights += moduleBytes(m)
		}
		for _, c := range s.state.Caches {
			cachePerPosition += (c.K.Cols + c.V.Cols) * c.K.Type.Size()
		}
	}
	return weights + moduleBytes(e.head), cachePerPosition
}

// moduleBytes sums what the matrices of a module hold; an embedding reads one
// row, which is not counted.
func moduleBytes(m model.Module) int {
	sum := 0
	for _, l := range model.Linears(m) {
		sum += l.W.Bytes() + l.Bias.Bytes()
	}
	return sum
}
