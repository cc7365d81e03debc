package infer

import (
	"context"

	"exl2/internal/model"
)

// A Session is one prompt after another in the engine's first sequence, as in a
// conversation, where each begins like the one before.
type Session struct {
	Engine *Engine

	// Once says that one prompt is all. A model with linear attention cannot go back: else no step of it
	// is begun before the token in front is known, so that the next prompt goes on from the end of the text.
	Once bool

	held []int32 // what the cache holds
}

// keep forgets what of the cache is not at the beginning of ids, and returns how
// many ids are left in it: never all of them, since the last one's logits are
// wanted.
func (s *Session) keep(ids []int32) int {
	n := 0
	for n < len(s.held) && n < len(ids)-1 && s.held[n] == ids[n] {
		n++
	}
	n = s.Engine.resumes(0, n)
	s.held = s.held[:n]
	return n
}

// read processes ids behind those that the cache holds and has the token after them
// chosen. Between chunks it looks whether ctx has ended.
func (s *Session) read(ctx context.Context, ids []int32, how manner) error {
	e := s.Engine
	for len(ids) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		run := Run{First: len(s.held), IDs: ids[:min(len(ids), e.Options.Chunk)]}
		if err := e.check(nil, run); err != nil {
			return err
		}
		p := pass{runs: []model.Run{{Position: run.First}}, span: len(run.IDs), ids: run.IDs, wanted: []int{0}}
		if len(run.IDs) == len(ids) {
			p.wanted[0] = 1
		}
		e.use(p)
		e.body(p)
		if ids = ids[len(run.IDs):]; len(ids) == 0 {
			e.choose(len(run.IDs)-1, how)
		}
		s.held = append(s.held, run.IDs...)
	}
	return nil
}
