package infer

import (
	"context"
	"fmt"
)

// A Session is one prompt after another in the engine's first sequence, as in a
// conversation, where each begins like the one before.
type Session struct {
	Engine *Engine

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
	s.held = s.held[:n]
	return n
}

// read processes ids behind those that the cache holds and returns the logits of
// the last of them. Between chunks it looks whether ctx has ended.
func (s *Session) read(ctx context.Context, ids []int32) (logits []float32, err error) {
	if end, room := len(s.held)+len(ids), s.Engine.Options.Positions; end > room {
		return nil, fmt.Errorf("%d positions do not fit the context of %d; give a larger --length", end, room)
	}
	for len(ids) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		run := Run{First: len(s.held), IDs: ids[:min(len(ids), s.Engine.Options.Chunk)]}
		if ids = ids[len(run.IDs):]; len(ids) == 0 {
			run.Logits = 1
		}
		err := s.Engine.Step([]Run{run}, func(_, _ int, rows [][]float32) { logits = rows[0] })
		if err != nil {
			return nil, err
		}
		s.held = append(s.held, run.IDs...)
	}
	return logits, nil
}
