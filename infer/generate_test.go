package infer

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// spelled turns every token into one piece of text.
type spelled struct{ pieces []string }

func (s spelled) Next(id int32) string { return s.pieces[int(id)%len(s.pieces)] }
func (s spelled) Flush() string        { return "" }

func generate(t testing.TB, g *Generation) (*Result, string) {
	t.Helper()
	e := openEngine(t, golden("arch/llama"), Options{Positions: 64}, 1)
	var emitted strings.Builder
	g.Prompt = someIDs(6, 100)
	if g.Text == nil {
		g.Text = spelled{[]string{"a", "b", "c"}}
	}
	g.Emit = func(s string) { emitted.WriteString(s) }
	r, err := e.Generate(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	return r, emitted.String()
}

// Greedy generation takes the most likely token of each whole pass.
func TestGreedy(t *testing.T) {
	r, emitted := generate(t, &Generation{Limit: 12})
	if len(r.Tokens) != 12 || r.Reason != Length || r.Text != emitted || len(r.Text) != 12 {
		t.Fatalf("%+v, emitted %q", r, emitted)
	}
	e := openEngine(t, golden("arch/llama"), Options{Positions: 64, Chunk: 64}, 1)
	ids := someIDs(6, 100)
	for _, id := range r.Tokens {
		rows := whole(t, e, ids)
		best := rows[len(rows)-1]
		for c, v := range best {
			if v > best[id]+1e-4 {
				t.Fatalf("token %d was chosen, %d is likelier", id, c)
			}
		}
		ids = append(ids, id)
	}
}

func TestGenerationEnds(t *testing.T) {
	all, _ := generate(t, &Generation{Limit: 12})
	fifth := all.Tokens[4]
	first := 0
	for all.Tokens[first] != fifth {
		first++
	}
	r, _ := generate(t, &Generation{Limit: 12, End: []int32{fifth}})
	if r.Reason != EndToken || len(r.Tokens) != first {
		t.Errorf("end token: %+v", r)
	}
	for _, end := range [][]int32{nil, {fifth}} {
		r, _ = generate(t, &Generation{Limit: 12, End: end, StopIDs: []int32{fifth}})
		if r.Reason != StopText || len(r.Tokens) != first {
			t.Errorf("a token to stop at, end tokens %v: %+v", end, r)
		}
	}
	r, emitted := generate(t, &Generation{Limit: 12, Stops: []string{all.Text[3:6]}})
	if want := strings.Index(all.Text, all.Text[3:6]); r.Reason != StopText || r.Text != all.Text[:want] || emitted != r.Text {
		t.Errorf("stop text %q in %q: %+v, emitted %q", all.Text[3:6], all.Text, r, emitted)
	}
	if r, _ := generate(t, &Generation{Limit: 0}); len(r.Tokens) != 0 || r.Reason != Length {
		t.Errorf("no tokens: %+v", r)
	}
}

// With the same seed, sampling repeats itself; with another it does not.
func TestSeeds(t *testing.T) {
	hot := Sampler{Temperature: 3}
	a, _ := generate(t, &Generation{Limit: 20, Sampler: hot, Seed: 5})
	b, _ := generate(t, &Generation{Limit: 20, Sampler: hot, Seed: 5})
	c, _ := generate(t, &Generation{Limit: 20, Sampler: hot, Seed: 6})
	if a.Text != b.Text || a.Text == c.Text {
		t.Errorf("%q, %q and %q", a.Text, b.Text, c.Text)
	}
}

// untilStop returns the text before the first stop text to end, the longest of
// those that end there.
func untilStop(text string, stops []string) (string, bool) {
	for n := range len(text) + 1 {
		longest := ""
		for _, s := range stops {
			if strings.HasSuffix(text[:n], s) && len(s) > len(longest) {
				longest = s
			}
		}
		if longest != "" {
			return text[:n-len(longest)], true
		}
	}
	return text, false
}

// Pieces of text with stop texts across their borders: nothing of a stop text
// or behind it gets out, and all before it does, whole characters at a time.
func TestStopsAcrossPieces(t *testing.T) {
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(letters, 0, 12).Draw(t, "pieces")
		stops := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 1, 4, -1), 0, 3).Draw(t, "stops")
		var out strings.Builder
		m := &emitter{stops: stops, emit: func(s string) {
			if !utf8.ValidString(s) {
				t.Fatalf("emitted %q", s)
			}
			out.WriteString(s)
		}}
		fed, stopped := "", false
		for _, p := range pieces {
			fed += p
			if stopped = m.add(p); stopped {
				break
			}
		}
		got := m.finish()
		want, found := untilStop(fed, stops)
		if found != stopped || got != want || out.String() != want {
			t.Fatalf("pieces %q, stops %q: %q and %v, want %q and %v", pieces, stops, got, stopped, want, found)
		}
	})
}
