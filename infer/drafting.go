package infer

import (
	"context"
	"errors"
	"fmt"

	"exl2/internal/model"
)

// A drafter drafts tokens that may follow a text.
type drafter interface {
	add(ids ...int32)                                  // the text goes on
	drafts(n int) bool                                 // whether there may be a draft of n tokens now
	draft(ctx context.Context, n int) ([]int32, error) // n tokens, or none, if drafts says so
}

// A drafting is a writing whose steps have drafted tokens, and compute the logits behind all of them at once: as many as are what is
// chosen there are accepted, and one more is known. Tokens are chosen by the logits, position and seed that they would have without, so the
// text is the same but for the rounding of products of several rows (Leviathan et al. 2023, where what drafts is certain).
//
// Where nothing is drafted the step behind is begun, too, before its token is known, so that a draft comes a step later there. Which
// steps have a draft, and how long it is, depends on the text alone, not on time.
type drafting struct {
	*writing
	kind   decode
	by     drafter
	most   int  // tokens of a draft
	long   bool // all of the last draft was accepted
	wrong  int  // drafts of which nothing was accepted, one after the other
	idle   int  // steps until the next draft
	single bool // the last step begun was of one token, and leaves the next one where it is read
	under  int  // steps of one token that are begun, and whose tokens are not known
}

// CheckDraft refuses drafts of so many tokens where they cannot be, as of models that are recurrent: those with linear attention.
func CheckDraft(tokens int, s Sampler, recurrent bool) error {
	switch {
	case tokens < 0 || tokens > MostDraft:
		return fmt.Errorf("drafts of %d tokens, want 0 to %d", tokens, MostDraft)
	case tokens > 0 && recurrent:
		return errors.New("drafted tokens: a model with linear attention cannot go back from those that are wrong; leave out --ngram, or the draft model")
	case tokens > 0 && s.penalizes():
		return errors.New("drafted tokens: penalties depend on the tokens in front; leave out --ngram, or the draft model, or give --repetition-penalty 1, and no others")
	}
	return nil
}

// run generates behind the prompt, whose next token has been chosen.
func (d *drafting) run(ctx context.Context) error {
	s, e := d.session, d.session.Engine
	d.by.add(d.Prompt...)
	ids, err := e.choice.read(1)
	for {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		for _, id := range ids {
			if d.take(id) {
				return nil
			}
		}
		d.by.add(ids...)
		left, room := d.Limit-len(d.result.Tokens), e.Options.Positions-len(s.held)
		switch {
		case left == 0:
			return nil
		case room == 0:
			return d.noRoom(e.Options.Positions + 1)
		}
		ids, err = d.step(ctx, ids[len(ids)-1], min(left, room)-1)
	}
}

// step returns the tokens behind one, at least one, of which at most so many are drafted.
func (d *drafting) step(ctx context.Context, last int32, most int) ([]int32, error) {
	n := d.length(most)
	if n == 0 || d.under > 0 {
		return d.next(last, n == 0 && most > 0)
	}
	draft, err := d.by.draft(ctx, n)
	switch {
	case err != nil:
		return nil, err
	case len(draft) == 0:
		return d.next(last, false)
	}
	e, s := d.session.Engine, d.session
	d.single = false
	chosen, err := e.verify(len(s.held), append([]int32{last}, draft...), d.kind)
	if err != nil {
		return nil, err
	}
	accepted := 0
	for accepted < len(draft) && chosen[accepted] == draft[accepted] {
		accepted++
	}
	s.held = append(append(s.held, last), draft[:accepted]...)
	d.learn(len(draft), accepted)
	return chosen[:accepted+1], nil
}

// length returns how long a draft is to be: one of two lengths, which are those that devices record steps of, or 0.
func (d *drafting) length(most int) int {
	if d.idle > 0 {
		d.idle--
		return 0
	}
	n := d.most
	if !d.long {
		n = max((n-1)/2, 1)
	}
	if n > most || !d.by.drafts(n) {
		return 0
	}
	return n
}

// learn remembers how a draft went. Where nothing was accepted time and again, ever more steps go by until the next one.
func (d *drafting) learn(drafted, accepted int) {
	const mostIdle = 32
	d.result.Drafted += drafted
	d.result.Accepted += accepted
	d.long = accepted == drafted
	if accepted > 0 {
		d.wrong = 0
		return
	}
	d.idle = min(1<<d.wrong, mostIdle) - 1
	d.wrong = min(d.wrong+1, mostIdle)
}

// next is a step without a draft, and perhaps begins the one behind.
func (d *drafting) next(last int32, ahead bool) ([]int32, error) {
	e, s := d.session.Engine, d.session
	if !d.single {
		e.useAt(len(s.held), []int32{last})
	}
	d.single = true
	want := 1
	if ahead {
		want = 2
	}
	for ; d.under < want; d.under++ {
		if err := e.decode(d.kind); err != nil {
			return nil, err
		}
	}
	ids, err := e.choice.read(1)
	d.under--
	s.held = append(s.held, last)
	return ids, err
}

// verify returns the tokens chosen behind each of ids.
func (e *Engine) verify(position int, ids []int32, k decode) ([]int32, error) {
	if err := e.chooseBehind(position, ids, k); err != nil {
		return nil, err
	}
	return e.choice.read(len(ids))
}

// chooseBehind has a token chosen behind each of ids, which follow one another from a position of the first sequence on, as steps of a kind choose
// one.
func (e *Engine) chooseBehind(position int, ids []int32, k decode) error {
	e.useAt(position, ids)
	e.choice.ready(len(ids))
	if len(ids) > 1 {
		k.span = len(ids)
	}
	return e.decode(k)
}

// useAt prepares every stage for a pass of ids, which follow one another from a position of the first sequence on.
func (e *Engine) useAt(position int, ids []int32) {
	e.use(pass{runs: []model.Run{{Position: position}}, span: len(ids), ids: ids})
}
