package infer

import (
	"cmp"
	"math/bits"
	"slices"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// A decode is a kind of decode steps: all modules for one position of some
// sequences, the head, and perhaps the choice of their next tokens, which makes the
// next step the same operations. Or for some positions of one sequence, behind each of which a token is chosen.
type decode struct {
	rows    int
	span    int // positions of a sequence; 0 is one
	reach   int // see device.Batch; for decode to say
	chooses bool
	how     manner
}

// single reports whether it is of one position of each sequence.
func (k decode) single() bool { return k.span <= 1 }

// A manner is what there is to do for a choice.
type manner struct{ penalties, greedy, unfiltered bool }

// decode does a step of a kind: each stage's part is recorded the first time and
// repeated from then on.
func (e *Engine) decode(k decode) error {
	k.reach = e.reachOf(k)
	e.track.advance(max(k.span, 1))
	parts := e.replays[k]
	for i, s := range e.stages {
		s.state.Batch.Reach = k.reach // for parts that are not recorded, too
		e.receive(i)
		if i < len(parts) {
			parts[i]()
			continue
		}
		replay, err := e.record(i, k)
		if err != nil {
			return err
		}
		e.replays[k] = append(e.replays[k], replay)
	}
	if k.chooses {
		e.choice.began(k.rows * max(k.span, 1))
	}
	if k.chooses && k.single() {
		e.furthest++
		if len(e.stages) > 1 {
			e.feed(e.choice.ids(k.rows))
		}
	}
	return nil
}

// reachOf returns the Reach of a step: of several positions a power of two, up to what there is room for, so that steps are recorded once
// for each.
func (e *Engine) reachOf(k decode) int {
	if k.single() {
		return device.ReachOf(e.furthest)
	}
	return min(max(device.LeastReach, 1<<bits.Len(uint(e.furthest))), e.Options.Positions)
}

// record does a stage's part of a step and returns what repeats it.
func (e *Engine) record(i int, k decode) (replay func(), err error) {
	s, last := e.stages[i], i == len(e.stages)-1
	next, each := step{advance: k.single()}, k.span
	if k.single() {
		each = e.atOnce(k.rows)
		if len(e.stages) == 1 {
			next.ids = s.state.IDs
		}
	}
	part := func() {
		for _, rows := range s.state.Parts(each) {
			for _, m := range s.modules {
				m.Forward(rows)
			}
		}
		if last {
			e.head.Forward(s.state)
		}
		switch {
		case k.chooses && last:
			e.choice.run(s.state.At(model.Logits), s.state.Batch.Pos, k.how, next)
		case k.chooses && next.advance:
			s.dev.Advance(s.state.Batch.Pos)
		}
	}
	if slices.ContainsFunc(s.modules, (*model.Module).Waits) {
		part()
		return part, nil
	}
	return s.dev.Record(part)
}

// atOnce returns how many of the rows of a pass go through all modules but the head at once. Devices plan products for an answer, so they
// are asked once.
func (e *Engine) atOnce(rows int) int {
	if each, ok := e.each[rows]; ok {
		return each
	}
	each := 0
	for _, s := range e.stages {
		for _, m := range s.modules {
			each = max(each, m.AtOnce(rows))
		}
	}
	e.each[rows] = cmp.Or(each, rows)
	return e.each[rows]
}

// parts returns in how many parts so many rows do.
func (e *Engine) parts(rows int) int {
	each := e.atOnce(rows)
	return (rows + each - 1) / each
}

// feed has the next step read some of the tokens chosen.
func (e *Engine) feed(ids tensor.Tensor) {
	first := e.stages[0]
	if len(e.stages) == 1 {
		first.dev.Copy(first.state.IDs, ids)
		return
	}
	hand(first.dev, e.choice.dev, first.state.IDs, ids)
}

// start makes what follows decode steps of one token of the first sequence, from a position on, of which the first token has been chosen in the
// last of some rows.
func (e *Engine) start(position, rows int) {
	e.use(pass{runs: []model.Run{{Position: position}}, span: 1})
	e.feed(e.choice.ids(rows).Columns(rows-1, rows))
}

// choose has a token chosen by the logits of one row of the last pass.
func (e *Engine) choose(row int, how manner) {
	part := e.last().Slice(row, row+1)
	for _, m := range e.end {
		m.Forward(part)
	}
	e.choice.run(part.At(model.Logits), part.Batch.Pos, how, step{})
	e.choice.began(1)
}
