package infer

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// A session computes what a prompt does not have in common with what the cache
// holds, and what it says is what a fresh engine says.
func TestSession(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 64, Chunk: 8}, 1)
	s := &Session{Engine: e}
	ask := func(prompt []int32) *Result {
		t.Helper()
		g := &Generation{Prompt: prompt, Limit: 6, Text: spelled{[]string{"a"}}, Emit: func(string) {}}
		r, err := s.Generate(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		fresh, err := openEngine(t, golden("arch/llama"), Options{Positions: 64, Chunk: 8}, 1).Generate(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Tokens, fresh.Tokens) || fresh.Cached != 0 {
			t.Fatalf("tokens %v, a fresh engine has %v (%d cached)", r.Tokens, fresh.Tokens, fresh.Cached)
		}
		return r
	}
	first := someIDs(20, 100)
	one := ask(first)
	second := slices.Concat(first, one.Tokens, []int32{9, 8, 7})
	for _, c := range []struct {
		name   string
		prompt []int32
		cached int
	}{
		{"what was said and more", second, 25}, // the last token of an answer has not been processed
		{"the same again", second, len(second) - 1},
		{"its beginning", first[:10], 9},
		{"another end", slices.Concat(first[:5], []int32{1, 2, 3}), 5},
		{"another beginning", []int32{99, 98}, 0},
	} {
		if r := ask(c.prompt); r.Cached != c.cached {
			t.Errorf("%s: %d of %d tokens were cached, want %d", c.name, r.Cached, len(c.prompt), c.cached)
		}
	}
}

// With linear attention a session goes on from where it is, or begins again.
func TestSessionOfLinearAttention(t *testing.T) {
	name, o := golden("arch/qwen3_5_text"), Options{Positions: 64, Chunk: 8}
	s := &Session{Engine: openEngine(t, name, o, 1)}
	ask := func(prompt []int32, end ...int32) *Result {
		t.Helper()
		g := &Generation{Prompt: prompt, Limit: 6, End: end, Text: spelled{[]string{"a"}}, Emit: func(string) {}}
		r, err := s.Generate(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		fresh, err := openEngine(t, name, o, 1).Generate(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Tokens, fresh.Tokens) {
			t.Fatalf("tokens %v, a fresh engine has %v", r.Tokens, fresh.Tokens)
		}
		return r
	}
	first := someIDs(20, 100)
	one := ask(first)
	second := slices.Concat(first, one.Tokens, []int32{9, 8, 7})
	whole := ask(second)
	ended := ask(second, whole.Tokens[3])
	if ended.Reason != EndToken {
		t.Fatal("the text was not ended by a token")
	}
	third := slices.Concat(second, ended.Tokens, []int32{5, 6})
	for _, c := range []struct {
		name   string
		prompt []int32
		cached int
	}{
		{"what was said and more", third, len(third) - 2},
		{"the same again", third, 0},
		{"its beginning", first[:10], 0},
		{"another end", slices.Concat(first[:5], []int32{1, 2, 3}), 0},
	} {
		if r := ask(c.prompt); r.Cached != c.cached {
			t.Errorf("%s: %d of %d tokens were cached, want %d", c.name, r.Cached, len(c.prompt), c.cached)
		}
	}
}

// A generation that is stopped returns what there is, and the session goes on.
func TestSessionStopped(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 64, Chunk: 8}, 1)
	s := &Session{Engine: e}
	ctx, stop := context.WithCancel(context.Background())
	count := 0
	g := &Generation{Prompt: someIDs(20, 100), Limit: 30, Text: spelled{[]string{"a"}}, Emit: func(string) {
		if count++; count == 4 {
			stop()
		}
	}}
	r, err := s.Generate(ctx, g)
	if !errors.Is(err, context.Canceled) || r.Text != "aaaa" {
		t.Fatalf("%v, %+v", err, r)
	}
	if r, err := s.Generate(ctx, g); !errors.Is(err, context.Canceled) || r.Text != "" {
		t.Fatalf("a context that has ended: %v, %+v", err, r)
	}
	g.Emit = func(string) {}
	again, err := s.Generate(context.Background(), g)
	if err != nil || again.Cached != 19 {
		t.Fatalf("%v, %+v", err, again)
	}
	fresh, err := openEngine(t, golden("arch/llama"), Options{Positions: 64, Chunk: 8}, 1).Generate(context.Background(), g)
	if err != nil || !slices.Equal(fresh.Tokens, again.Tokens) {
		t.Fatalf("%v: %v after a stop, %v without", err, again.Tokens, fresh.Tokens)
	}
}

// A waning context ends when it has been looked at some times.
type waning struct {
	context.Context
	looks int
}

func (w *waning) Err() error {
	if w.looks--; w.looks < 0 {
		return context.Canceled
	}
	return nil
}

// Ctrl-C ends a benchmark and a perplexity within a prompt and within a row, which
// may take hours, and between generated tokens.
func TestStoppedWithin(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 64, Chunk: 8}, 1)
	for name, run := range map[string]func(context.Context) error{
		"a prompt": func(ctx context.Context) error {
			_, err := e.Bench(ctx, Test{Prompt: 64, Batch: 1}, 1)
			return err
		},
		"steps": func(ctx context.Context) error {
			_, err := e.Bench(ctx, Test{Generate: 64, Batch: 1}, 1)
			return err
		},
		"a row": func(ctx context.Context) error {
			_, err := e.Perplexity(ctx, nil, [][]int32{someIDs(64, 100)}, func(*Score) { t.Error("a row is done") })
			return err
		},
		"the reference's row": func(ctx context.Context) error {
			_, err := e.Perplexity(ctx, e, [][]int32{someIDs(64, 100)}, func(*Score) { t.Error("a row is done") })
			return err
		},
	} {
		if err := run(&waning{t.Context(), 3}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, looked at a fourth time: %v, want %v", name, err, context.Canceled)
		}
	}
}
