package infer

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/goldens"

	"pgregory.net/rapid"
)

// drafted returns a draft of n tokens, or nil.
func drafted(t interface{ Fatal(...any) }, d drafter, n int) []int32 {
	if !d.drafts(n) {
		return nil
	}
	ids, err := d.draft(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// What followed the last tokens before is what may follow them now: where most of them were alike, two at least, the last time.
func TestNgrams(t *testing.T) {
	for _, c := range []struct {
		name string
		text []int32
		n    int
		want []int32
	}{
		{"nothing", nil, 3, nil},
		{"nothing has been twice", []int32{1, 2, 3, 4, 5}, 3, nil},
		{"three", []int32{1, 2, 3, 4, 5, 6, 1, 2, 3}, 3, []int32{4, 5, 6}},
		{"three before two", []int32{1, 2, 3, 4, 9, 2, 3, 7, 1, 2, 3}, 2, []int32{4, 9}},
		{"two", []int32{2, 3, 7, 8, 9, 2, 3}, 2, []int32{7, 8}},
		{"the last time", []int32{1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3}, 1, []int32{5}},
		{"five before three", []int32{8, 9, 1, 2, 3, 4, 6, 1, 2, 3, 5, 8, 9, 1, 2, 3}, 2, []int32{4, 6}},
		{"as many as are compared", slices.Concat(someIDs(20, 100), []int32{101}, someIDs(20, 100)[4:], []int32{102}, someIDs(20, 100)), 1, []int32{102}},
		{"no further back", slices.Concat([]int32{7, 1, 2, 3}, slices.Repeat([]int32{8, 1, 2, 4}, mostPlaces), []int32{7, 1, 2}), 1, []int32{4}},
		{"beyond the end", []int32{5, 6, 7, 5, 6, 7}, 7, []int32{5, 6, 7, 5, 6, 7, 5}},
		{"one, again and again", []int32{4, 4, 4}, 3, []int32{4, 4, 4}},
		{"none asked for", []int32{5, 6, 7, 5, 6, 7}, 0, nil},
	} {
		g := newNgrams()
		g.add(c.text...)
		if got := drafted(t, g, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A draft is what the text has behind its last tokens where they were last, and, behind its end, that again.
func TestNgramsFindTheLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 40).Draw(t, "text")
		n := rapid.IntRange(1, MostDraft).Draw(t, "tokens")
		g := newNgrams()
		g.add(text...)
		var want []int32
		for length := mostAlike; length >= leastAlike && want == nil; length-- {
			for at := len(text) - 1; at >= length && want == nil; at-- {
				if slices.Equal(text[at-length:at], text[len(text)-length:]) {
					want = slices.Clone(text[at:])
					for len(want) < n {
						want = append(want, want[len(want)-(len(text)-at)])
					}
					want = want[:n]
				}
			}
		}
		if got := drafted(t, g, n); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// repeated is a prompt some of which has been before.
func repeated(vocab int) []int32 { return slices.Concat(someIDs(9, vocab), someIDs(7, vocab)) }

// draftTexts talks with drafts and without, and compares.
func draftTexts(t *testing.T, e *Engine) {
	drafted, accepted := 0, 0
	for _, s := range []Sampler{{}, {Temperature: 0.1}, {Temperature: 1, TopK: 40, TopP: 0.9}} {
		g := Generation{Prompt: repeated(e.Vocab()), Limit: 40, Sampler: s, Seed: 5, Text: spelled{[]string{"a", "b", "c"}}}
		want := talk(e, 0, 0, g)
		for _, n := range []int{1, 2, 3, 5, MostDraft} {
			g.Draft = n
			got := talk(e, 0, 0, g)
			sameTalk(t, got, want, fmt.Sprintf("%+v, drafts of %d", s, n))
			for _, turn := range got {
				drafted, accepted = drafted+turn.result.Drafted, accepted+turn.result.Accepted
			}
		}
	}
	if accepted == 0 || accepted == drafted {
		t.Errorf("%d of %d drafted tokens were accepted, want some to be, and some not", accepted, drafted)
	}
}

// Texts with drafts are those without, on one device and on several.
func TestDraftsChangeNothing(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "exl2") {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s on %d", goldens.Name(dir), n), func(t *testing.T) {
				draftTexts(t, openEngine(t, dir, Options{Positions: 160}, n))
			})
		}
	}
}

// A text with drafts ends where one without does: at its limit, at a stop, and at the end of the context.
func TestDraftsEnd(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 48}, 1)
	prompt := repeated(e.Vocab())
	run := func(limit, draft int, g Generation) (*Result, error) {
		g.Prompt, g.Limit, g.Draft = prompt, limit, draft
		g.Text = spelled{[]string{"a", "b", "c", "d", "e"}}
		return e.Generate(context.Background(), &g)
	}
	whole, err := run(30, 0, Generation{})
	if err != nil {
		t.Fatal(err)
	}
	for limit := range 31 {
		for name, g := range map[string]Generation{"": {}, "end": {End: whole.Tokens[11:12]}, "stop": {Stops: []string{whole.Text[9:13]}}} {
			want, err := run(limit, 0, g)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 4, MostDraft} {
				got, err := run(limit, n, g)
				if err != nil || !slices.Equal(got.Tokens, want.Tokens) || got.Text != want.Text || got.Reason != want.Reason {
					t.Errorf("%d tokens %s, drafts of %d: %+v, %v, want %+v", limit, name, n, got, err, want)
				}
			}
		}
	}
	_, want := run(40, 0, Generation{})
	if r, err := run(40, MostDraft, Generation{}); want == nil || err == nil || err.Error() != want.Error() || len(r.Tokens) != 33 {
		t.Errorf("beyond the context: %d tokens, %v, want %v", len(r.Tokens), err, want)
	}
}

// Where drafts are wrong time and again, ever fewer are made; an accepted one is followed by a longer one.
func TestDraftsLearn(t *testing.T) {
	d := &drafting{writing: &writing{result: &Result{}}, by: newNgrams(), most: MostDraft}
	d.by.add(1, 1, 1)
	lengths := func(n int, accepted func(drafted int) int) (list []int) {
		for range n {
			draft := d.length(100)
			list = append(list, draft)
			if draft > 0 {
				d.learn(draft, accepted(draft))
			}
		}
		return list
	}
	none, all := func(int) int { return 0 }, func(n int) int { return n }
	if got, want := lengths(12, none), []int{3, 3, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("wrong ones: %v, want %v", got, want)
	}
	if got, want := lengths(7, all), []int{0, 0, 0, 3, 7, 7, 7}; !slices.Equal(got, want) {
		t.Errorf("right ones: %v, want %v", got, want)
	}
	if got, want := lengths(4, func(int) int { return 1 }), []int{7, 3, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("half right ones: %v, want %v", got, want)
	}
	if got := d.length(2); got != 0 {
		t.Errorf("a draft of %d where two are wanted, which no step is recorded of", got)
	}
}

// Drafts are refused where they cannot be.
func TestDraftsAreRefused(t *testing.T) {
	for _, c := range []struct {
		dir  string
		g    Generation
		want string
	}{
		{"arch/llama", Generation{Draft: 8}, "drafts of 8 tokens, want 0 to 7"},
		{"arch/llama", Generation{Draft: -1}, "want 0 to 7"},
		{"arch/llama", Generation{Draft: 3, Sampler: Sampler{Repetition: 1.1}}, "--repetition-penalty 1"},
		{"arch/qwen3_next", Generation{Draft: 3}, "linear attention"},
	} {
		e := openEngine(t, golden(c.dir), Options{Positions: 32}, 1)
		c.g.Prompt, c.g.Limit, c.g.Text = someIDs(4, e.Vocab()), 4, spelled{[]string{"a"}}
		if _, err := e.Generate(t.Context(), &c.g); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %+v: %v, want %q", filepath.Base(c.dir), c.g.Draft, err, c.want)
		}
	}
}
