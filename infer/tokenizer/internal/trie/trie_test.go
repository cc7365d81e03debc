package trie

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTrieFindsWhatAMapFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00é\u00ff")), 0, 6, -1)
		keys := rapid.SliceOf(key).Draw(t, "keys")
		numbers := map[string]int32{}
		for i, k := range keys {
			numbers[k] = int32(i)
		}
		delete(numbers, "")
		tr := New(keys)
		text := key.Draw(t, "text")
		want, length := int32(-1), 0
		for end := 1; end <= len(text); end++ {
			if n, ok := numbers[text[:end]]; ok {
				want, length = n, end
			}
		}
		if got, n := tr.Longest(text); got != want || n != length {
			t.Fatalf("longest(%q) in %q = %d, %d; want %d, %d", text, keys, got, n, want, length)
		}
	})
}
