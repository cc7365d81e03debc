package tokenizer

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"exl2/internal/goldens"

	"pgregory.net/rapid"
)

// texts draws texts of letters, marks, white space and special tokens.
var texts = rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{"the ", " ", "  ", "\n", "ab", "12", "é", "e\u0301", "日本", "👍🏽", "</s>", "<|eot_id|>", "▁", "<0x0A>"}),
		rapid.StringN(0, 6, -1),
	), 0, 20).Draw(t, "parts")
	return strings.Join(parts, "")
})

// TestByteLevelRoundTrip: a byte-level vocabulary loses nothing.
func TestByteLevelRoundTrip(t *testing.T) {
	tok := load(t, golden(t, "llama3"))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ToValidUTF8(texts.Draw(t, "text"), "\uFFFD")
		for _, p := range []Parse{ParseSpecial, SpecialAsText} {
			if got := tok.Decode(tok.EncodeParse(text, p)); got != text {
				t.Fatalf("%d: %q became %q", p, text, got)
			}
		}
	})
}

// golden returns the folder of a golden tokenizer.
func golden(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range goldens.Dirs(t, "tokenizer") {
		if filepath.Base(dir) == name {
			return dir
		}
	}
	t.Fatalf("no golden tokenizer %s", name)
	return ""
}

// TestStreamIsDecode: whatever the ids, a stream gives the same text as
// decoding them at once, in whole characters.
func TestStreamIsDecode(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "tokenizer") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			tok := load(t, dir)
			n := int32(tok.VocabSize())
			rapid.Check(t, func(rt *rapid.T) {
				ids := rapid.SliceOf(rapid.Int32Range(-1, n)).Draw(rt, "ids")
				if got, want := streamed(t, tok.NewStream(), ids), tok.Decode(ids); got != want {
					rt.Fatalf("streamed %q, decoded %q", got, want)
				}
				if got, want := streamed(t, tok.NewStreamSkip(), ids), tok.DecodeSkip(ids); got != want {
					rt.Fatalf("skipping specials: streamed %q, decoded %q", got, want)
				}
			})
		})
	}
}

// TestStreamBeginsAnew: after Flush a stream is as new.
func TestStreamBeginsAnew(t *testing.T) {
	tok := load(t, golden(t, "llama2"))
	ids := tok.EncodePlain("Hello wörld 日")
	s := tok.NewStream()
	for range 2 {
		checkText(t, "stream", streamed(t, s, ids), "Hello wörld 日")
	}
}

// TestConcurrentUse: goroutines that share a tokenizer do not disturb each other.
func TestConcurrentUse(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "tokenizer") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			tok, cases := load(t, dir), readCases(t, dir)
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					for i := range cases {
						checkCase(t, tok, cases[(i+g*7)%len(cases)])
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestCutsChangeNothing: a long word cut where no merge reaches across has the
// same ids as in one piece.
func TestCutsChangeNothing(t *testing.T) {
	for _, name := range []string{"llama2", "sp_bpe_gemma"} {
		t.Run(name, func(t *testing.T) {
			cut, whole := load(t, golden(t, name)), load(t, golden(t, name))
			switch m := whole.model.(type) {
			case *bpe:
				m.inner = nil
			case *pieceBPE:
				m.inner = nil
			}
			rapid.Check(t, func(t *rapid.T) {
				text := strings.Repeat(texts.Draw(t, "text"), 4)
				if got, want := cut.EncodePlain(text), whole.EncodePlain(text); !slices.Equal(got, want) {
					t.Fatalf("%q: cut %v, whole %v", text, got, want)
				}
			})
		})
	}
}

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
		w := new(worker)
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
		u := &unigram{unk: 0, unkScore: -30}
		keys := []string{""}
		u.scores = []float64{0}
		for piece, s := range scores {
			keys, u.scores = append(keys, piece), append(u.scores, s)
		}
		u.setPieces(keys)
		word := rapid.StringOfN(rapid.SampledFrom([]rune("abéx")), 1, 8, -1).Draw(t, "word")
		w := new(worker)
		u.fresh(w, nil, word)
		got, want := w.path[len(word)].score, bestScore(word, scores, -30)
		if math.Abs(got-want) > 1e-9 {
			t.Fatalf("%q: path of score %v, best is %v", word, got, want)
		}
	})
}

func TestTrieFindsWhatAMapFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00é\u00ff")), 0, 6, -1)
		keys := rapid.SliceOf(key).Draw(t, "keys")
		numbers := map[string]int32{}
		for i, k := range keys {
			numbers[k] = int32(i)
		}
		delete(numbers, "")
		tr := newTrie(keys)
		text := key.Draw(t, "text")
		want, length := int32(-1), 0
		for end := 1; end <= len(text); end++ {
			if n, ok := numbers[text[:end]]; ok {
				want, length = n, end
			}
		}
		if got, n := tr.longest(text); got != want || n != length {
			t.Fatalf("longest(%q) in %q = %d, %d; want %d, %d", text, keys, got, n, want, length)
		}
	})
}

// TestHostileTextIsEncoded: texts that break careless algorithms lose nothing.
func TestHostileTextIsEncoded(t *testing.T) {
	tok := load(t, golden(t, "llama3"))
	for _, text := range []string{
		strings.Repeat("a", 1<<18), strings.Repeat(" ", 1<<18) + "x", strings.Repeat("\u0301", 1<<14),
		strings.Repeat("<|eot_id", 1<<14), strings.Repeat("\n \n", 1<<14),
	} {
		if got := tok.Decode(tok.EncodePlain(text)); got != text {
			t.Errorf("%.10q...: %d bytes became %d", text, len(text), len(got))
		}
	}
	checkText(t, "invalid UTF-8", tok.Decode(tok.EncodePlain("a\xffb")), "a\uFFFDb")
}

// TestWorkersAreBounded: the free list does not grow with the number of calls.
func TestWorkersAreBounded(t *testing.T) {
	tok := load(t, golden(t, "llama3"))
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() { tok.EncodePlain(fmt.Sprint("word", i)) })
	}
	wg.Wait()
	if n := len(tok.workers.free); n == 0 || n > runtime.GOMAXPROCS(0) {
		t.Errorf("%d idle workers after 200 calls", n)
	}
}
