package convert

import (
	"sync"

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
	// mine reports whether progress of a module is this walker's to tell.
	mine(spec model.ModuleSpec) bool
	// settle waits until what the steps so far have found is in files. After the walk it
	// is for whoever needs them.
	settle() error
	// stores lists the hidden states.
	stores() []job.Store
}

func newStage(name string, steps int) *stage {
	return &stage{name: name, steps: steps, begun: &sync.Once{}}
}

// A stage is what progress is told of. It may have more steps than a walk takes.
type stage struct {
	name   string
	steps  int
	prefix string // of what is told of modules, where stages share progress
	begun  *sync.Once
}

// begin tells of the stage, once for all walkers, and of the modules of this one that
// an earlier run has passed.
func (s *stage) begin(p Progress, passed []model.ModuleSpec, mine func(model.ModuleSpec) bool) {
	s.begun.Do(func() { p.Start(s.name, s.steps) })
	for _, spec := range passed {
		if mine(spec) {
			p.Skip(s.what(spec))
		}
	}
}

// what is what progress calls a module.
func (s *stage) what(spec model.ModuleSpec) string { return s.prefix + spec.Name }

// walk goes through the decoder from where an earlier run has stopped.
func (r *run) walk(w walker, c *job.Checkpoint, s *stage) error {
	next, err := r.enter(w, c)
	if err != nil {
		return err
	}
	layout := r.src.loader.Layout
	s.begin(r.progress, layout[1:next], w.mine)
	for i := next; i < len(layout)-1; i++ {
		spec := layout[i]
		r.ahead(i + 1)
		note, err := w.step(spec)
		if err != nil {
			return err
		}
		if c.Due() {
			if err := w.settle(); err != nil {
				return err
			}
			if err := c.Write(i+1, w.stores()); err != nil {
				return err
			}
		}
		if w.mine(spec) {
			tell(r.progress, s.what(spec), note)
		}
	}
	return nil
}

// doneBefore is the note on a step that an earlier run has done.
const doneBefore = "done before"

// tell counts a step.
func tell(p Progress, what, note string) {
	if note == doneBefore {
		p.Skip(what)
	} else {
		p.Step(what, note)
	}
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
		e, err := r.shelf.load(l.Embedding())
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
