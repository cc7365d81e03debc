package infer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"exl2/internal/model"
)

// A Test is one measurement of speed: of a prompt of Prompt tokens, or of
// Generate decode steps, behind Depth positions, for Batch sequences at once.
type Test struct {
	Prompt, Generate int
	Depth, Batch     int
}

// Name is the test's name in llama-bench's manner: pp512, tg128, tg128@d8192.
func (t Test) Name() string {
	name := fmt.Sprintf("tg%d", t.Generate)
	if t.Prompt > 0 {
		name = fmt.Sprintf("pp%d", t.Prompt)
	}
	if t.Depth > 0 {
		name += fmt.Sprintf("@d%d", t.Depth)
	}
	return name
}

// Positions returns the context that the test needs.
func (t Test) Positions() int { return t.Depth + max(t.Prompt, t.Generate) }

// A Speed is the outcome of a Test.
type Speed struct {
	TokensPerSecond float64
	Deviation       float64 // standard deviation between repeats
	First           float64 // tokens a second of the first run, before those
	BytesPerToken   float64 // of weights, cache and states that a step reads, shared among its tokens
}

// Bench runs a test: once to warm up, a prompt twice, as a GPU may keep weights that it
// decodes the second time; then repeat times. What lies before Depth is a cache of zeros:
// what it holds does not change what is computed.
func (e *Engine) Bench(ctx context.Context, t Test, repeat int) (*Speed, error) {
	before := 1
	if t.Prompt > 0 {
		before = 2
	}
	var rates []float64
	for range before + repeat {
		start := time.Now()
		if err := e.once(ctx, t); err != nil {
			return nil, err
		}
		tokens := float64(max(t.Prompt, t.Generate) * t.Batch)
		rates = append(rates, tokens/time.Since(start).Seconds())
	}
	s := &Speed{First: rates[0], BytesPerToken: e.bytesPerToken(t)}
	s.TokensPerSecond, s.Deviation = meanAndDeviation(rates[before:])
	return s, nil
}

// once runs a test's passes, until ctx ends.
func (e *Engine) once(ctx context.Context, t Test) error {
	for b := range t.Batch {
		e.track.reached[b] = t.Depth
	}
	if t.Prompt > 0 {
		ids := benchPrompt(t.Prompt, e.spec.Vocab)
		for b := range t.Batch {
			if _, err := e.next(ctx, b, t.Depth, ids); err != nil {
				return err
			}
		}
		return nil
	}
	p := pass{runs: make([]model.Run, t.Batch), span: 1, ids: make([]int32, t.Batch)}
	for b := range p.runs {
		p.ids[b], p.runs[b] = int32(b*31%e.spec.Vocab), model.Run{Sequence: b, Position: t.Depth}
	}
	k := e.choice.set(make([]chooser, t.Batch), e.spec.Vocab)
	e.use(p)
	for f := e.front(k, 0, t.Generate); f.more(); {
		_, err := f.next()
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// benchPrompt returns n tokens of a vocabulary.
func benchPrompt(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i * 7919 % vocab)
	}
	return ids
}

// bytesPerToken is what the steps of a test read, on average, for each token, with states that they write.
func (e *Engine) bytesPerToken(t Test) float64 {
	weights, position := e.BytesPerStep()
	if t.Prompt > 0 {
		passes := 0
		for left := t.Prompt; left > 0; left -= e.span(1, left) {
			passes++
		}
		return float64(passes*weights)/float64(t.Prompt) + float64(position)*(float64(t.Depth)+float64(t.Prompt)/2)/float64(t.Prompt)
	}
	depth, states := float64(t.Depth)+float64(t.Generate)/2, 0
	for _, s := range e.stages {
		states += 2 * s.cache.StateBytes() // read and written
	}
	head := e.head.Bytes()
	weights = (weights-head)*e.parts(t.Batch) + head
	return float64(weights)/float64(t.Batch) + depth*float64(position) + float64(states)
}

func meanAndDeviation(x []float64) (mean, deviation float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		deviation += (v - mean) * (v - mean)
	}
	if len(x) > 1 {
		deviation = math.Sqrt(deviation / float64(len(x)-1))
	}
	return mean, deviation
}
