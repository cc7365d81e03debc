package infer

import (
	"context"
	"fmt"
	"slices"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// A Run is tokens of one sequence that follow one another. What the sequence
// holds at earlier positions must have been given before; what it holds from
// First on is forgotten. With linear attention it can go on from where it is only, or from 0.
type Run struct {
	Sequence int // from 0 to Options.Sequences-1
	First    int // position of the first token
	IDs      []int32
	Logits   int // of how many of the last positions logits are wanted
}

// Step processes runs of different sequences and calls f with the logits that
// are wanted, in the order of positions: run is the number of the run, first the
// position of the first row. Batching, speculation and going on with a text are
// up to the caller.
func (e *Engine) Step(runs []Run, f func(run, first int, logits [][]float32)) error {
	return e.step(context.Background(), runs, f)
}

// step is Step that ends with ctx: between chunks it looks whether it is to.
func (e *Engine) step(ctx context.Context, runs []Run, f func(run, first int, logits [][]float32)) error {
	for i, r := range runs {
		if err := e.check(runs[:i], r); err != nil {
			return err
		}
	}
	for i := 0; i < len(runs); {
		n := e.alike(runs[i:])
		if err := e.together(ctx, runs[i:i+n], i, f); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// check refuses a run that cannot be, and gives it pages that it may write.
func (e *Engine) check(before []Run, r Run) error {
	if r.Sequence < 0 || r.Sequence >= e.Options.Sequences || r.First < 0 || len(r.IDs) == 0 {
		return fmt.Errorf("run of %d tokens from position %d of sequence %d, in an engine for %d sequences", len(r.IDs), r.First, r.Sequence, e.Options.Sequences)
	}
	if end := r.First + len(r.IDs); end > e.Options.Positions {
		return fmt.Errorf("%d positions do not fit the context of %d; give a larger --length", end, e.Options.Positions)
	}
	for _, b := range before {
		if b.Sequence == r.Sequence {
			return fmt.Errorf("two runs of sequence %d in one step", r.Sequence)
		}
	}
	if err := e.continues(r); err != nil {
		return err
	}
	if !e.pages.Shared(r.Sequence, r.First) {
		return nil
	}
	if r.First%model.PageRows != 0 {
		return fmt.Errorf("position %d of sequence %d is shared with another sequence", r.First, r.Sequence)
	}
	e.pages.Own(r.Sequence, r.First)
	e.assign()
	return nil
}

// Share has sequence to begin like sequence from, without computing it again,
// and returns how many positions they share: whole pages of at most the given
// number, or none with linear attention. Sequence to goes on from there.
func (e *Engine) Share(to, from, positions int) int {
	if e.spec.Recurrent() {
		return 0
	}
	n := e.pages.Share(to, from, positions)
	e.assign()
	return n
}

// assign brings the page table to every device.
func (e *Engine) assign() {
	for _, s := range e.stages {
		s.cache.Assign(e.pages.Table())
	}
}

// alike returns how many of the first runs can be processed in one pass: those
// of one length.
func (e *Engine) alike(runs []Run) int {
	n, rows := 1, len(runs[0].IDs)
	for n < len(runs) && len(runs[n].IDs) == rows && (n+1)*rows <= e.Options.Chunk {
		n++
	}
	return n
}

// together processes runs of one length, some positions at a time; offset is the
// number of the first.
func (e *Engine) together(ctx context.Context, runs []Run, offset int, f func(run, first int, logits [][]float32)) error {
	var p pass
	length := len(runs[0].IDs)
	for lo := 0; lo < length; lo += p.span {
		if err := ctx.Err(); err != nil {
			return err
		}
		p = pass{span: e.span(len(runs), length-lo)}
		for _, r := range runs {
			p.runs = append(p.runs, model.Run{Sequence: r.Sequence, Position: r.First + lo})
			p.ids = append(p.ids, r.IDs[lo:lo+p.span]...)
			p.wanted = append(p.wanted, min(p.span, max(0, lo+p.span-(length-r.Logits))))
		}
		if err := e.pass(p, func(run, row int, logits [][]float32) { f(offset+run, runs[run].First+lo+row, logits) }); err != nil {
			return err
		}
	}
	return nil
}

// promptParts is in how many parts a pass of runs of several tokens is done at most: three passes are not faster than one, as three
// parts of a step of single tokens are.
const promptParts = 2

// span returns how many of the tokens that are left of some runs go in the next pass.
func (e *Engine) span(runs, left int) int {
	span := min(e.Options.Chunk, left)
	parts := e.parts(runs * span)
	if part := (span + parts - 1) / parts; parts <= promptParts && part > 1 {
		return part
	}
	return span
}

// A pass is runs of span tokens each, processed at once; the logits of the last
// wanted positions of each run are to be computed.
type pass struct {
	runs   []model.Run
	span   int
	ids    []int32
	wanted []int
}

// pass runs the model. f is called with numbers of runs and of rows in them, and
// with finite logits only.
func (e *Engine) pass(p pass, f func(run, row int, logits [][]float32)) error {
	e.use(p)
	if p.span == 1 {
		return e.single(p, f)
	}
	e.body(p)
	for i, w := range p.wanted {
		end := (i + 1) * p.span
		err := e.last().EachLogits(e.end, end-w, end, func(row int, logits [][]float32) error {
			if err := finite(logits); err != nil {
				return err
			}
			f(i, row-i*p.span, logits)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// single is pass for runs of one token.
func (e *Engine) single(p pass, f func(run, row int, logits [][]float32)) error {
	if err := e.decode(decode{rows: len(p.runs)}); err != nil {
		return err
	}
	logits, err := e.last().Logits()
	if err == nil {
		err = finite(logits)
	}
	if err != nil {
		return err
	}
	for i, w := range p.wanted {
		if w > 0 {
			f(i, 0, logits[i:i+1])
		}
	}
	return nil
}

// use prepares every stage for a pass.
func (e *Engine) use(p pass) {
	e.track.begin(p.runs)
	e.furthest = 0
	for _, r := range p.runs {
		e.furthest = max(e.furthest, r.Position+p.span-1)
	}
	ids := p.ids
	for _, s := range e.stages {
		s.state.Use(p.runs, p.span, ids)
		if p.span == 1 {
			s.state.Batch.Reach = device.ReachOf(e.furthest)
		}
		ids = nil // the first stage embeds them
	}
}

// fewWanted is of up to how many rows of a run the end of the model is computed for those
// alone whose logits are wanted.
const fewWanted = 16

// body runs all modules but those of the end: the head, and the last MLP if few rows need it.
func (e *Engine) body(p pass) {
	defer e.keepDecoded()
	e.track.advance(p.span)
	e.end = []*model.Module{e.head}
	for i, s := range e.stages {
		e.receive(i)
		modules := s.modules
		if last := len(modules) - 1; i == len(e.stages)-1 && last > 0 && modules[last].ByRows() && p.few() {
			e.end, modules = []*model.Module{modules[last], e.head}, modules[:last]
		}
		for k, m := range modules {
			if k > 0 && k == len(s.modules)-2 && len(e.end) > 1 {
				m.ForwardFor(s.state, p.parts(s.state), p.unread())
				continue
			}
			m.Forward(s.state)
		}
	}
}

// parts returns the rows of each run whose logits are wanted, two at least: attention of a single
// row may read what is older before it has been stored.
func (p pass) parts(s *model.State) (list []*model.State) {
	for i, w := range p.wanted {
		if w > 0 {
			list = append(list, s.Run(p.part(i), (i+1)*p.span))
		}
	}
	return list
}

// part returns the first row of run i's.
func (p pass) part(i int) int { return (i+1)*p.span - max(p.wanted[i], 2) }

// unread returns how many rows are in front of all parts.
func (p pass) unread() int {
	for i, w := range p.wanted {
		if w > 0 {
			return p.part(i)
		}
	}
	return len(p.runs) * p.span
}

// few reports whether of all runs the logits of few rows, not of all, are wanted.
func (p pass) few() bool {
	return !slices.ContainsFunc(p.wanted, func(w int) bool { return w > fewWanted || w == p.span })
}

// receive brings the residual stream to a stage.
func (e *Engine) receive(i int) {
	if i > 0 {
		hand(e.stages[i].state.Dev, e.stages[i-1].state.Dev, e.stages[i].state.At(model.Stream), e.stages[i-1].state.At(model.Stream))
	}
}

// hand copies from one device to another.
func hand(to, from device.Device, dst, src tensor.Tensor) {
	if p, ok := from.(device.Peer); ok && p.CopyTo(to, dst, src) {
		return
	}
	buf := make([]byte, src.Bytes())
	from.Download(buf, src)
	to.Upload(dst, buf)
}
