package subword

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// naiveMerge is BPE by its definition: look for the best pair, merge it, again.
func naiveMerge(ids []int32, pairs *pairTable) []int32 {
	for {
		best, at := merge{rank: math.MaxInt32}, -1
		for i := 0; i+1 < len(ids); i++ {
			if m, ok := pairs.get(ids[i], ids[i+1]); ok && m.rank < best.rank {
				best, at = m, i
			}
		}
		if at < 0 {
			return ids
		}
		ids = append(append(slices.Clone(ids[:at]), best.id), ids[at+2:]...)
	}
}

func TestMergesAreThoseOfTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := newPairTable(1)
		next := int32(4)
		for rank := range rapid.Int32Range(0, 30).Draw(t, "merges") {
			id := rapid.Int32Range(0, next-1)
			pairs.put(id.Draw(t, "left"), id.Draw(t, "right"), merge{rank: rank, id: next})
			next++
		}
		ids := rapid.SliceOfN(rapid.Int32Range(0, 3), 1, 60).Draw(t, "word")
		w := new(Work)
		for i, id := range ids {
			w.syms = append(w.syms, symbol{id: id, prev: int32(i - 1), next: int32(i + 1)})
		}
		w.syms[len(ids)-1].next = -1
		w.mergeSymbols(pairs)
		var got []int32
		for _, s := range w.syms {
			if s.id != gone {
				got = append(got, s.id)
			}
		}
		if want := naiveMerge(ids, pairs); !slices.Equal(got, want) {
			t.Fatalf("%v became %v, want %v", ids, got, want)
		}
	})
}

// TestCutsChangeNothing: a long word cut where no merge reaches across has the
// same ids as in one piece.
func TestCutsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := map[string]int32{"<unk>": 0, "a": 1, "b": 2, "é": 3, "<0x41>": 4}
		names := []string{"a", "b", "é", "<0x41>"}
		r := Rules{Unk: rapid.Int32Range(-1, 0).Draw(t, "unk"), Fuse: rapid.Bool().Draw(t, "fuse")}
		if rapid.Bool().Draw(t, "bytes") {
			r.Fallback = ByteTokens(ids)
		}
		var merges [][2]string
		for range rapid.IntRange(0, 12).Draw(t, "merges") {
			left, right := rapid.SampledFrom(names).Draw(t, "left"), rapid.SampledFrom(names).Draw(t, "right")
			if _, ok := ids[left+right]; !ok && len(left+right) < 20 {
				ids[left+right] = int32(len(ids))
				names, merges = append(names, left+right), append(merges, [2]string{left, right})
			}
		}
		cut, whole := NewBPE(ids, r), NewBPE(ids, r)
		whole.inner = nil
		for _, m := range merges {
			for _, b := range []*BPE{cut, whole} {
				if err := b.Merge(m[0], m[1]); err != nil {
					t.Fatal(err)
				}
			}
		}
		word := rapid.StringOfN(rapid.SampledFrom([]rune("abbaéxA")), 65, 200, -1).Draw(t, "word")
		if got, want := cut.Encode(new(Work), nil, word), whole.Encode(new(Work), nil, word); !slices.Equal(got, want) {
			t.Fatalf("%q with merges %q: cut %v, whole %v", word, merges, got, want)
		}
	})
}

// TestCacheIsAMap: the cache has what was put last since it started anew.
func TestCacheIsAMap(t *testing.T) {
	c, want := new(wordCache), map[string][]int32{}
	for i := range maxCachedWords + 5000 {
		if c.used == maxCachedWords {
			clear(want)
		}
		word, ids := fmt.Sprint(i%70000, "é"), []int32{int32(i), 7, 8}[:i%4]
		if _, ok := want[word]; !ok {
			want[word] = ids
		}
		c.put(word, ids)
	}
	if len(want) != c.used || c.used > 5000 {
		t.Fatalf("%d words, want %d", c.used, len(want))
	}
	for word, ids := range want {
		if got, ok := c.get(word); !ok || !slices.Equal(got, ids) {
			t.Fatalf("%q: %v, %t; want %v", word, got, ok, ids)
		}
	}
	for _, word := range []string{"", "none", strings.Repeat("a", 100)} {
		c.put(strings.Repeat("a", 100), []int32{1})
		if ids, ok := c.get(word); ok {
			t.Errorf("%q: %v", word, ids)
		}
	}
}

// bestScore tries every way to cut word into pieces.
func bestScore(word string, scores map[string]float64, unk float64) float64 {
	if word == "" {
		return 0
	}
	best := math.Inf(-1)
	_, n := utf8.DecodeRuneInString(word)
	if _, ok := scores[word[:n]]; !ok {
		best = unk + bestScore(word[n:], scores, unk)
	}
	for end := 1; end <= len(word); end++ {
		if s, ok := scores[word[:end]]; ok {
			best = max(best, s+bestScore(word[end:], scores, unk))
		}
	}
	return best
}

func TestUnigramFindsTheBestPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.MapOfN(rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 1, 3, -1), rapid.Float64Range(-9, 0), 1, 9).Draw(t, "scores")
		p := Pieces{UnkScore: -30, Texts: []string{""}, Scores: []float64{0}}
		for piece, s := range scores {
			p.Texts, p.Scores = append(p.Texts, piece), append(p.Scores, s)
		}
		word := rapid.StringOfN(rapid.SampledFrom([]rune("abéx")), 1, 8, -1).Draw(t, "word")
		w := new(Work)
		NewUnigram(p).Encode(w, nil, word)
		got, want := w.path[len(word)].score, bestScore(word, scores, -30)
		if math.Abs(got-want) > 1e-9 {
			t.Fatalf("%q: path of score %v, best is %v", word, got, want)
		}
	})
}
