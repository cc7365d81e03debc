package infer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"exl2/internal/model"
)

// A writing is a generation under way. Tokens are chosen on the device, and the step
// after a token is begun before the host has seen it: what comes behind a token that
// ends the text is thrown away.
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
	if room := e.Options.Positions; len(w.Prompt) > room {
		return w.noRoom(len(w.Prompt))
	}
	k := decode{rows: 1, chooses: true}
	k.penalties = e.choice.set([]chooser{{w.Sampler, w.Seed, w.Prompt}}, e.Vocab())
	if err := s.read(ctx, w.Prompt[w.result.Cached:], k.penalties); err != nil {
		return err
	}
	if w.Limit == 0 {
		return e.sync()
	}
	position := len(s.held)
	e.start([]model.Run{{Position: position}})
	get := e.choice.fetch(1)
	for n := 1; ; n++ {
		var next func() ([]int32, error)
		if n < w.Limit && position < e.Options.Positions {
			if err := e.decode(k); err != nil {
				return err
			}
			next = e.choice.fetch(1)
			position++
		}
		ids, err := get()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || w.take(ids[0]) {
			return err
		}
		if n == w.Limit {
			return nil
		}
		if next == nil {
			return w.noRoom(position + 1)
		}
		s.held, get = append(s.held, ids[0]), next
	}
}

// take adds a token to the text and reports whether it ends it.
func (w *writing) take(id int32) (end bool) {
	r := w.result
	if len(r.Tokens) == 0 {
		r.FirstToken = time.Since(w.start)
	}
	if slices.Contains(w.End, id) {
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
