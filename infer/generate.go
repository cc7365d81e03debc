package infer

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// A Stream turns tokens into text as they come. It never returns a part of a
// character.
type Stream interface {
	Next(id int32) string
	Flush() string
}

// A Generation is one prompt being continued.
type Generation struct {
	Prompt  []int32
	Limit   int // tokens to generate, at most
	Sampler Sampler
	Seed    uint64
	Draft   int      // tokens that may be drafted at a time, up to MostDraft: by the engine's draft model, or by what has followed the last ones before
	End     []int32  // tokens that end the text and are not part of it
	Stops   []string // texts that end the text and are not part of it
	StopIDs []int32  // tokens that do as Stops do, which need not have a text
	Text    Stream
	Emit    func(text string) // called with every piece of text that is certain; may be nil
}

// StopReason says why a generation ended.
type StopReason string

// The stop reasons.
const (
	EndToken StopReason = "eos"
	StopText StopReason = "stop"
	Length   StopReason = "length"
)

// A Result is a finished generation.
type Result struct {
	Text         string
	Tokens       []int32
	Reason       StopReason
	FirstToken   time.Duration // until the first token was chosen
	PerSecond    float64       // tokens after the first; 0 if there are none
	PromptTokens int
	Cached       int // of the prompt, that the cache held already
	Drafted      int // tokens
	Accepted     int // of these
}

// Generate continues a prompt. When ctx ends meanwhile, the error is its error,
// and the result what has been generated until then.
func (e *Engine) Generate(ctx context.Context, g *Generation) (*Result, error) {
	return (&Session{Engine: e, Once: true}).Generate(ctx, g)
}

// Generate continues a prompt, as Engine.Generate does. What the prompt has in
// common with the one before and its text is not computed again.
func (s *Session) Generate(ctx context.Context, g *Generation) (*Result, error) {
	if len(g.Prompt) == 0 {
		return nil, errors.New("the prompt has no tokens; give a text, or a model with a token that begins texts")
	}
	if err := cmp.Or(g.Sampler.Check(), CheckDraft(g.Draft, g.Sampler, s.Engine.spec.Recurrent())); err != nil {
		return nil, err
	}
	r := &Result{PromptTokens: len(g.Prompt), Reason: Length, Cached: s.keep(g.Prompt)}
	w := &writing{Generation: g, session: s, out: &emitter{stops: g.Stops, emit: g.Emit}, result: r, start: time.Now()}
	err := w.run(ctx)
	if err == nil && r.Reason != StopText && w.out.add(g.Text.Flush()) {
		r.Reason = StopText
	}
	r.Text = w.out.finish()
	if n := len(r.Tokens); n > 1 {
		r.PerSecond = float64(n-1) / (time.Since(w.start) - r.FirstToken).Seconds()
	}
	return r, err
}

// next processes ids at positions from first on of a sequence and returns the
// logits of the last of them.
func (e *Engine) next(ctx context.Context, sequence, first int, ids []int32) (logits []float32, err error) {
	err = e.step(ctx, []Run{{Sequence: sequence, First: first, IDs: ids, Logits: 1}}, func(_, _ int, rows [][]float32) { logits = rows[0] })
	return logits, err
}

// An emitter passes text on as soon as it is certain that no stop text begins
// in it.
type emitter struct {
	stops   []string
	emit    func(string)
	done    strings.Builder
	pending string
	stopped bool
}

// add takes more text and reports whether a stop text was found.
func (m *emitter) add(text string) bool {
	m.pending += text
	if at := m.find(); at >= 0 {
		m.pass(at)
		m.pending, m.stopped = "", true
		return true
	}
	m.pass(len(m.pending) - m.held())
	return false
}

// find returns where the stop text begins that is complete first, the longest of
// those that end together, or -1: the same however the text comes in pieces.
func (m *emitter) find() int {
	at, end := -1, 0
	for _, s := range m.stops {
		i := strings.Index(m.pending, s)
		if e := i + len(s); i >= 0 && (at < 0 || e < end || e == end && i < at) {
			at, end = i, e
		}
	}
	return at
}

// held returns how many bytes at the end of the pending text may be the
// beginning of a stop text.
func (m *emitter) held() int {
	most := 0
	for _, s := range m.stops {
		for n := min(len(s)-1, len(m.pending)); n > most; n-- {
			if strings.HasPrefix(s, m.pending[len(m.pending)-n:]) {
				most = n
			}
		}
	}
	for most > 0 && !utf8.RuneStart(m.pending[len(m.pending)-most]) {
		most++
	}
	return most
}

// pass emits the first n pending bytes.
func (m *emitter) pass(n int) {
	if n <= 0 {
		return
	}
	m.done.WriteString(m.pending[:n])
	if m.emit != nil {
		m.emit(m.pending[:n])
	}
	m.pending = m.pending[n:]
}

// finish passes on what was held back and returns all text.
func (m *emitter) finish() string {
	if !m.stopped {
		m.pass(len(m.pending))
	}
	return m.done.String()
}
