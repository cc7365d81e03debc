package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

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
		if got := tok.Decode(plain(t, tok, text), DecodeOptions{}); got != text {
			t.Fatalf("%q became %q", text, got)
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
				if got, want := streamed(t, tok.NewStream(DecodeOptions{}), ids), tok.Decode(ids, DecodeOptions{}); got != want {
					rt.Fatalf("streamed %q, decoded %q", got, want)
				}
				if got, want := streamed(t, tok.NewStream(DecodeOptions{SkipSpecial: true}), ids), tok.Decode(ids, DecodeOptions{SkipSpecial: true}); got != want {
					rt.Fatalf("skipping specials: streamed %q, decoded %q", got, want)
				}
			})
		})
	}
}

// TestStreamBeginsAnew: after Flush a stream is as new.
func TestStreamBeginsAnew(t *testing.T) {
	tok := load(t, golden(t, "llama2"))
	ids := plain(t, tok, "Hello wörld 日")
	s := tok.NewStream(DecodeOptions{})
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

// TestHostileTextIsEncoded: texts that break careless algorithms lose nothing.
func TestHostileTextIsEncoded(t *testing.T) {
	tok := load(t, golden(t, "llama3"))
	for _, text := range []string{
		strings.Repeat("a", 1<<18), strings.Repeat(" ", 1<<18) + "x", strings.Repeat("\u0301", 1<<14),
		strings.Repeat("<|eot_id", 1<<14), strings.Repeat("\n \n", 1<<14),
	} {
		if got := tok.Decode(plain(t, tok, text), DecodeOptions{}); got != text {
			t.Errorf("%.10q...: %d bytes became %d", text, len(text), len(got))
		}
	}
	checkText(t, "invalid UTF-8", tok.Decode(plain(t, tok, "a\xffb"), DecodeOptions{}), "a\uFFFDb")
}

// TestWorkersAreBounded: the free list does not grow with the number of calls.
func TestWorkersAreBounded(t *testing.T) {
	tok := load(t, golden(t, "llama3"))
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() { plain(t, tok, fmt.Sprint("word", i)) })
	}
	wg.Wait()
	if n := len(tok.workers.free); n == 0 || n > runtime.GOMAXPROCS(0) {
		t.Errorf("%d idle workers after 200 calls", n)
	}
}

// TestEncodingEndsWithItsContext: an interrupted program does not wait for a text.
func TestEncodingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, dir := range goldens.Dirs(t, "tokenizer") {
		tok := load(t, dir)
		ids, err := tok.Encode(ctx, strings.Repeat("a b", 1000), EncodeOptions{})
		if ids != nil || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "encoding a text of 3000 bytes: ") {
			t.Errorf("%s: %d ids, error %v", dir, len(ids), err)
		}
		if len(plain(t, tok, "a b")) == 0 {
			t.Errorf("%s: no ids after an interruption", dir)
		}
	}
}
