package infer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// openDraft has a model of the goldens draft for another one.
func openDraft(t *testing.T, e *Engine, dir string) {
	t.Helper()
	if err := e.OpenDraft(dir); err != nil {
		t.Fatal(err)
	}
}

// Texts that a model drafts are those without drafts, in a conversation, too, greedy or drawn: whether the model is another one of the same tokens,
// as one of fewer bits is, or the same, all of whose drafts are right but for rounding.
func TestDraftModelChangesNothing(t *testing.T) {
	const tiny = "../testdata/models/tiny"
	for _, c := range []struct {
		dir, draft  string
		devices     int
		least, most float64 // share of the drafted tokens that are accepted
	}{
		{golden("arch/llama"), golden("arch/llama"), 1, 0.95, 1},
		{golden("arch/llama"), golden("arch/llama"), 2, 0.95, 1},
		{golden("arch/llama"), golden("arch/qwen3"), 1, 0, 0.5},
		{tiny, golden("exl2/tiny-2.5bpw"), 1, 0.15, 0.95},
	} {
		t.Run(fmt.Sprintf("%s by %s on %d", c.dir, c.draft, c.devices), func(t *testing.T) {
			e := openEngine(t, c.dir, Options{Positions: 120}, c.devices)
			openDraft(t, e, c.draft)
			drafted, accepted := 0, 0
			for _, s := range []Sampler{{}, {Temperature: 0.5}, {Temperature: 1, TopK: 40, TopP: 0.9}} {
				g := Generation{Prompt: someIDs(11, e.Vocab()), Limit: 30, Sampler: s, Seed: 5, Text: spelled{[]string{"a", "b", "c"}}}
				want := talk(e, 0, 0, g)
				for _, g.Draft = range []int{1, 2, 4, MostDraft} {
					got := talk(e, 0, 0, g)
					sameTalk(t, got, want, fmt.Sprintf("%+v, drafts of %d", s, g.Draft))
					for _, turn := range got {
						drafted, accepted = drafted+turn.result.Drafted, accepted+turn.result.Accepted
					}
				}
			}
			if share := float64(accepted) / float64(drafted); !(share >= c.least && share <= c.most) {
				t.Errorf("%d of %d drafted tokens were accepted, want %.2f to %.2f of them", accepted, drafted, c.least, c.most)
			}
		})
	}
}

// Nothing is drafted where the text is longer than the draft model takes, or has tokens that it has not, and the text goes on.
func TestDraftModelThatDoesNotKnow(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 200}, 1)
	openDraft(t, e, golden("arch/gpt2"))
	if got := e.draft.session.Engine.Options.Positions; got != 128 {
		t.Fatalf("the draft model takes %d positions, want the 128 that it has learned", got)
	}
	g := Generation{Prompt: someIDs(100, e.Vocab()), Limit: 90, Text: spelled{[]string{"a"}}}
	want := talk(e, 0, 0, g)
	g.Draft = 3
	sameTalk(t, talk(e, 0, 0, g), want, "a short context")

	m := e.draft
	m.begin(Sampler{}, 0)
	m.add(5, 127)
	if !m.drafts(3) || m.drafts(0) || m.drafts(127) {
		t.Errorf("drafts of 3, 0 and 127 tokens behind two: %v, %v, %v, want the first alone", m.drafts(3), m.drafts(0), m.drafts(127))
	}
	m.add(128, 5)
	if m.drafts(3) {
		t.Error("a draft of a text with token 128, of a model of 128 tokens")
	}
	m.begin(Sampler{}, 0)
	m.vocab = 1 // of the larger model
	m.add(5, 6)
	if draft, err := m.draft(t.Context(), 4); len(draft) > 0 || err != nil {
		t.Errorf("%v, %v, of tokens that the larger model has not", draft, err)
	}
}

// A draft is what the model itself would go on with, whatever it has read and drafted before.
func TestDraftModelGoesOn(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 200}, 1)
	openDraft(t, e, golden("arch/llama"))
	ref := openEngine(t, golden("arch/llama"), Options{Positions: 200}, 1)
	m, text := e.draft, []int32(nil)
	m.begin(Sampler{}, 0)
	for i, n := range []int{30, 1, 2, 8, 9, 1, 3, 12, 2} { // tokens that the text goes on by
		more := someIDs(n+i, 100)[i:]
		text = append(text, more...)
		m.add(more...)
		got, err := m.draft(t.Context(), 1+i%MostDraft)
		if err != nil {
			t.Fatal(err)
		}
		g := Generation{Prompt: text, Limit: len(got), Text: spelled{[]string{"a"}}}
		want, err := ref.Generate(t.Context(), &g)
		if err != nil || !slices.Equal(got, want.Tokens) {
			t.Errorf("behind %d tokens, %d of them new: %v, want %v, %v", len(text), n, got, want, err)
		}
		if i%2 == 0 { // some are accepted
			text = append(text, got[:len(got)/2]...)
			m.add(got[:len(got)/2]...)
		}
	}
}

// Draft models that cannot be are refused by name.
func TestDraftModelsAreRefused(t *testing.T) {
	for dir, want := range map[string]string{
		golden("arch/qwen3_next"): "linear attention",
		"testdata/none":           "none",
	} {
		e := openEngine(t, golden("arch/llama"), Options{Positions: 32}, 1)
		if err := e.OpenDraft(dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}
