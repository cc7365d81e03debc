package convert

import (
	"exl2/internal/job"
	"exl2/internal/model"
)

// A walker works through the modules of the decoder in order, with hidden states
// that stand in front of the next one.
type walker interface {
	// embed puts the hidden states behind the embedding.
	embed(e *model.Module) error
	// resume takes up what an earlier run has found at the modules it has passed.
	resume(passed []model.ModuleSpec) error
	// step works on a module, moves the hidden states behind it, and says in a few
	// words how it went.
	step(spec model.ModuleSpec) (note string, err error)
	// settle waits until what the steps so far have found is in files.
	settle() error
	// stores lists the hidden states.
	stores() []job.Store
}

// walk goes through the decoder from where an earlier run has stopped. The stage
// may have more steps than it takes.
func (r *run) walk(w walker, c *job.Checkpoint, stage string, steps int) error {
	next, err := r.enter(w, c)
	if err != nil {
		return err
	}
	r.progress.Start(stage, steps)
	for i, spec := range r.src.loader.Decoder() {
		if i+1 < next {
			r.progress.Skip(spec.Name)
			continue
		}
		note, err := w.step(spec)
		if err != nil {
			return err
		}
		if c.Due() {
			if err := w.settle(); err != nil {
				return err
			}
			if err := c.Write(i+2, w.stores()); err != nil {
				return err
			}
		}
		r.progress.Step(spec.Name, note)
	}
	return w.settle()
}

// enter puts the hidden states where the checkpoint has them, or behind the
// embedding, and returns the place in the layout of the module in front of which
// they are.
func (r *run) enter(w walker, c *job.Checkpoint) (next int, err error) {
	l := r.src.loader
	saved, err := c.Open(len(l.Layout) - 1)
	if err != nil {
		return 0, err
	}
	if saved == nil {
		e, err := l.Load(r.dev, l.Embedding())
		if err != nil {
			return 0, err
		}
		defer e.Free()
		return 1, w.embed(e)
	}
	defer saved.Close()
	if err := w.resume(l.Layout[1:saved.Next]); err != nil {
		return 0, err
	}
	return saved.Next, saved.Restore(w.stores())
}
