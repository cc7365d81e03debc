package infer

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"exl2/internal/device"
)

// A turn is what a generation in a session has left: its result, and what is held.
type turn struct {
	result Result
	err    string
	held   []int32
}

// talk has a session generate with so many tokens under way, stopping after some tokens
// if stop is over 0, and then twice more: what it has said and more, and what another
// prompt has in common with it.
func talk(e *Engine, depth, stop int, g Generation) (turns []turn) {
	e.depth = depth
	s := &Session{Engine: e}
	for i := range 3 {
		ctx, cancel := context.WithCancel(context.Background())
		count := 0
		g.Emit = func(string) {
			if count++; i == 0 && count == stop {
				cancel()
			}
		}
		r, err := s.Generate(ctx, &g)
		cancel()
		t := turn{result: *r, held: slices.Clone(s.held)}
		if t.result.FirstToken, t.result.PerSecond = 0, 0; err != nil {
			t.err = err.Error()
		}
		turns = append(turns, t)
		g.Prompt = slices.Concat(g.Prompt, r.Tokens, []int32{9, 8})
		if i == 1 {
			g.Prompt = slices.Concat(g.Prompt[:5], []int32{1, 2})
		}
		g.Prompt = g.Prompt[:min(len(g.Prompt), e.Options.Positions-1)]
	}
	return turns
}

// However many steps are in front of the host, texts are the same, and what they leave
// behind: wherever they end, on one device or two.
func TestStepsInFront(t *testing.T) {
	const positions = 48
	var engines []*Engine
	for n := range 2 {
		engines = append(engines, openEngine(t, golden("arch/llama"), Options{Positions: positions, Chunk: 16}, n+1))
	}
	alone := openEngine(t, golden("arch/llama"), Options{Positions: positions, Chunk: 16}, 1)
	rapid.Check(t, func(t *rapid.T) {
		g := Generation{
			Prompt: someIDs(rapid.IntRange(1, 24).Draw(t, "prompt"), 100), Limit: rapid.IntRange(0, 44).Draw(t, "limit"), Seed: rapid.Uint64().Draw(t, "seed"),
			Text: spelled{[]string{"a", "b", "c"}}, End: rapid.SliceOfN(rapid.Int32Range(0, 99), 0, 6).Draw(t, "end"),
			Stops:   rapid.SliceOfN(rapid.StringMatching("[abc]{2,6}"), 0, 2).Draw(t, "stops"),
			Sampler: rapid.SampledFrom([]Sampler{{}, {Temperature: 3}, {Temperature: 2, TopK: 40, TopP: 0.9}, {Repetition: 1.3}, {Temperature: 3, Frequency: 0.4, Typical: 0.9}}).Draw(t, "sampler"),
		}
		stop := rapid.IntRange(0, 12).Draw(t, "cancel after")
		depth := rapid.SampledFrom([]int{2, 3, 5, 16, mostFront}).Draw(t, "depth")
		want := talk(alone, 1, stop, g)
		for _, e := range engines {
			sameTalk(t, talk(e, depth, stop, g), want, fmt.Sprintf("on %d devices, %d under way", len(e.stages), depth))
		}
	})
}

func sameTalk(t rapid.TB, got, want []turn, what string) {
	t.Helper()
	for i := range want {
		a, b := got[i], want[i]
		if !slices.Equal(a.result.Tokens, b.result.Tokens) || a.result.Text != b.result.Text || a.result.Reason != b.result.Reason ||
			a.result.Cached != b.result.Cached || a.err != b.err || !slices.Equal(a.held, b.held) {
			t.Fatalf("%s, turn %d:\n%+v\nwant\n%+v", what, i, a, b)
		}
	}
}

// No step is begun that a limit or the context has no room for, or, on a device that is
// done when it returns, whose token nobody asks for.
func TestStepsBegun(t *testing.T) {
	for _, c := range []struct {
		name               string
		depth, limit, want int // steps; the first token is the prompt's
		end                bool
	}{
		{"a limit", 16, 12, 11, false},
		{"a limit, one by one", 0, 12, 11, false},
		{"the context", 16, 40, 26, false},
		{"an end", 16, 40, 15 + 4, true},
		{"an end, one by one", 0, 40, 4, true},
	} {
		e := openEngine(t, golden("arch/llama"), Options{Positions: 32}, 1)
		e.depth = c.depth
		g := &Generation{Prompt: someIDs(6, 100), Limit: c.limit, Text: spelled{[]string{"a"}}}
		if c.end {
			all, _ := generate(t, &Generation{Limit: 12, Sampler: Sampler{Temperature: 3}, Seed: 1})
			if slices.Index(all.Tokens, all.Tokens[4]) != 4 {
				t.Fatalf("token 4 of %v is there before", all.Tokens)
			}
			g.Sampler, g.Seed, g.End = Sampler{Temperature: 3}, 1, all.Tokens[4:5]
		}
		_, err := e.Generate(context.Background(), g)
		if fails := c.limit > 27 && !c.end; (err != nil) != fails {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := e.choice.begun - 1; got != c.want {
			t.Errorf("%s: %d steps were begun, want %d", c.name, got, c.want)
		}
	}
}

// Steps in front are as many as take a time, within bounds.
func TestDepth(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 32}, 1)
	f := e.front(decode{rows: 1, chooses: true}, 0, 10)
	if d := f.depth(); d != 1 {
		t.Errorf("a device that is done when it returns: %d", d)
	}
	e.choice.ring = besideRing{e.choice.ring}
	for _, c := range []struct {
		step time.Duration
		want int
	}{{0, firstFront}, {1, mostFront}, {frontTime / 10, 12}, {frontTime, 3}, {time.Second, 2}} {
		f.pace.step = c.step
		if d := f.depth(); d != c.want {
			t.Errorf("steps of %v: %d under way, want %d", c.step, d, c.want)
		}
	}
}

// besideRing is of a device that works beside the host.
type besideRing struct{ device.TokenRing }

func (besideRing) Beside() bool { return true }
