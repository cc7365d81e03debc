package infer

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A writing is a generation under way. Tokens are chosen on the device, and steps after a
// token are begun before the host has seen it: what comes behind a token that ends the
// text is thrown away.
type writing struct {
	*Generation
	session *Session
	out     *emitter
	result  *Result
	start   time.Time
}

// run reads the prompt and generates.
func (w *writing) run(ctx context.Context) error {
	s, e := w.session, w.session.Engine
	room := e.Options.Positions - len(w.Prompt)
	if room < 0 {
		return w.noRoom(len(w.Prompt))
	}
	k := e.choice.set(slices.Repeat([]chooser{{w.Sampler, w.Seed, w.Prompt}}, 1+w.Draft), e.Vocab())
	k.rows = 1
	if err := s.read(ctx, w.Prompt[w.result.Cached:], k.how); err != nil {
		return err
	}
	if w.Limit == 0 {
		return e.sync()
	}
	if w.Draft > 0 {
		return (&drafting{writing: w, kind: k, by: w.drafter(), most: w.Draft}).run(ctx)
	}
	e.start(len(s.held), 1)
	f := e.front(k, 1, min(w.Limit-1, room))
	f.steady = e.spec.Recurrent() && !s.Once // or the next prompt could not go on from here
	for f.more() {
		ids, err := f.next()
		if n := len(w.result.Tokens); n > 0 { // whose step has been begun
			s.held = append(s.held, w.result.Tokens[n-1])
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || w.take(ids[0]) {
			return err
		}
	}
	if len(w.result.Tokens) < w.Limit {
		return w.noRoom(e.Options.Positions + 1)
	}
	return nil
}

// drafter returns the engine's draft model, or what goes by the text alone.
func (w *writing) drafter() drafter {
	m := w.session.Engine.draft
	if m == nil {
		return newNgrams()
	}
	m.begin(w.Sampler, w.Seed)
	return m
}

// take adds a token to the text and reports whether it ends it.
func (w *writing) take(id int32) (end bool) {
	r := w.result
	if len(r.Tokens) == 0 {
		r.FirstToken = time.Since(w.start)
	}
	switch {
	case slices.Contains(w.StopIDs, id):
		r.Reason = StopText
		return true
	case slices.Contains(w.End, id):
		r.Reason = EndToken
		return true
	}
	r.Tokens = append(r.Tokens, id)
	if w.out.add(w.Text.Next(id)) {
		r.Reason = StopText
		return true
	}
	return false
}

func (w *writing) noRoom(positions int) error {
	return fmt.Errorf("%d positions do not fit the context of %d; give a larger --length", positions, w.session.Engine.Options.Positions)
}
