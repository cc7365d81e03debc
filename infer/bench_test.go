package infer

import (
	"slices"
	"testing"
)

// Prompts of any length are tokens of the vocabulary.
func TestBenchPrompt(t *testing.T) {
	for _, c := range []struct{ n, vocab int }{{1, 1}, {512, 100}, {300_000, 32_000}, {1 << 20, 262_144}} {
		ids := benchPrompt(c.n, c.vocab)
		if len(ids) != c.n || slices.Min(ids) < 0 || int(slices.Max(ids)) >= c.vocab {
			t.Errorf("%d tokens of %d: %d, from %d to %d", c.n, c.vocab, len(ids), slices.Min(ids), slices.Max(ids))
		}
	}
}
