package infer

import (
	"context"
	"fmt"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/devices"
)

// A draftModel is a small model that drafts for a larger one of the same tokens (speculative decoding, Leviathan et al. 2023). Its tokens
// are chosen as the larger one's are, with the same random numbers, so that they are the same ones wherever both find the same likely.
type draftModel struct {
	session Session // whose engine holds the text as far as the last draft
	vocab   int     // of the larger model
	text    []int32
	strange bool // the text has a token that the model has not
	kind    decode
}

// OpenDraft loads a model that drafts for this one, on the device of it that has most memory free: Generations with a Draft go by it. Where the text
// has a token that it does not know, or is longer than it takes, nothing is drafted. It is closed with the Engine.
func (e *Engine) OpenDraft(dir string) error {
	spec, err := arch.ReadSpec(dir)
	switch {
	case err != nil:
		return err
	case spec.Recurrent():
		return fmt.Errorf("draft model %s: %w: it has linear attention, and cannot go back from tokens that are wrong; give another one", dir, arch.ErrUnsupported)
	}
	o := e.draftOptions(spec)
	if note := e.Options.Note; note != nil {
		o.Note = func(text string) { note("draft model " + dir + ": " + text) }
	}
	small, err := open(dir, e.roomiest(), o)
	if err != nil {
		return err
	}
	e.draftBy(small)
	return nil
}

// draftOptions are those of a model that drafts for e: with a context as long, if it takes that.
func (e *Engine) draftOptions(spec arch.Spec) Options {
	o := Options{Positions: e.Options.Positions, KeepDecoded: keepOff, Note: e.Options.Note, Interrupted: e.Options.Interrupted}
	for _, most := range []int{spec.Bound, spec.Learned} {
		if most > 0 {
			o.Positions = min(o.Positions, most)
		}
	}
	return o
}

// draftBy has a model draft for e, which closes it.
func (e *Engine) draftBy(small *Engine) {
	e.draft = &draftModel{session: Session{Engine: small}, vocab: e.Vocab()}
}

// roomiest returns the device that has most memory free.
func (e *Engine) roomiest() devices.List {
	best, most := e.stages[len(e.stages)-1].dev, 0
	for _, s := range e.stages {
		if m, ok := s.dev.(device.MemoryInfo); ok {
			if free, _ := m.MemInfo(); free > most {
				best, most = s.dev, free
			}
		}
	}
	return devices.List{best}
}

// begin prepares for a text, of which nothing is there yet.
func (m *draftModel) begin(s Sampler, seed uint64) {
	e := m.session.Engine
	m.text, m.strange = nil, false
	m.kind = e.choice.set(slices.Repeat([]chooser{{s, seed, nil}}, 1+MostDraft), e.Vocab())
	m.kind.rows = 1
}

func (m *draftModel) add(ids ...int32) {
	known := int32(m.session.Engine.Vocab())
	m.strange = m.strange || slices.ContainsFunc(ids, func(id int32) bool { return id >= known })
	m.text = append(m.text, ids...)
}

func (m *draftModel) drafts(n int) bool {
	return !m.strange && n > 0 && len(m.text)+n <= m.session.Engine.Options.Positions
}

// draft has the model go on with the text: it reads what is new of it, and chooses n tokens, all of which are on their way before the first one is
// read.
func (m *draftModel) draft(ctx context.Context, n int) ([]int32, error) {
	s := &m.session
	e := s.Engine
	s.keep(m.text)
	rows, err := m.read(ctx, m.text[len(s.held):])
	if err != nil {
		return nil, err
	}
	for range n - 1 {
		if err := e.decode(m.kind); err != nil {
			return nil, err
		}
	}
	var draft []int32
	for range n {
		ids, err := e.choice.read(rows)
		if err != nil {
			return nil, err
		}
		draft, rows = append(draft, ids[len(ids)-1]), 1
	}
	s.held = append(s.held, draft[:n-1]...)
	if slices.ContainsFunc(draft, func(id int32) bool { return int(id) >= m.vocab }) {
		return nil, nil
	}
	return draft, nil
}

// read reads what is new of the text, has the token behind it chosen, in the last of some rows, and has steps of single tokens go on from there.
func (m *draftModel) read(ctx context.Context, ids []int32) (rows int, err error) {
	s, e, n := &m.session, m.session.Engine, len(ids)
	if rows = n; n > 1+MostDraft {
		rows, err = 1, s.read(ctx, ids, m.kind.how)
	} else if err = e.chooseBehind(len(s.held), ids, m.kind); err == nil {
		s.held = append(s.held, ids...)
	}
	if err == nil && n > 1 { // a step of one goes on by itself
		e.start(len(s.held), rows)
	}
	return rows, err
}
