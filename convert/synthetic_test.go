package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tokenized gives a source a tokenizer of so many tokens, of which the first are special.
func tokenized(t testing.TB, source string, tokens, special int) {
	t.Helper()
	var vocab, added []string
	for id := range tokens {
		text := fmt.Sprintf("t%d", id)
		vocab = append(vocab, fmt.Sprintf("%q: %d", text, id))
		if id < special {
			added = append(added, fmt.Sprintf(`{"id": %d, "content": %q, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}`, id, text))
		}
	}
	text := fmt.Sprintf(`{"version": "1.0", "added_tokens": [%s], "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
		"model": {"type": "BPE", "vocab": {%s}, "merges": []}}`, strings.Join(added, ", "), strings.Join(vocab, ", "))
	if err := os.WriteFile(filepath.Join(source, "tokenizer.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// A model that ends its texts after a few tokens is quantized without any, where their
// number was not given: a job that goes on does not try again, and the model is that of a
// job without.
func TestShortTexts(t *testing.T) {
	source := sourceModel(t, "llama")
	tokenized(t, source, 128, 100)
	data := tokenFile(t)
	asked := func(n SyntheticRows) *Options {
		o := options(t, source, "4.0")
		o.Data.File, o.SyntheticRows, o.conditions.product = data, n, 32
		return o
	}
	d := small{openCPU(t), 1 << 40}
	plain, auto := asked(0), asked(AutoRows)
	if _, err := runOn(context.Background(), on(d), plain, &watcher{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	first := &watcher{}
	first.step = func() {
		if first.stage == "quantize 4.0" {
			cancel()
		}
	}
	if _, err := runOn(ctx, on(d), auto, first); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(first.warnings) != 1 || !strings.Contains(first.warnings[0], "ends its texts after a few tokens") {
		t.Errorf("warnings %q", first.warnings)
	}
	then := &watcher{}
	then.step = func() {
		if then.stage == "sample text" {
			t.Error("sampled again")
		}
	}
	r, err := runOn(context.Background(), on(d), auto, then)
	if err != nil {
		t.Fatal(err)
	}
	if r.Rows != 8 || len(then.warnings) > 0 {
		t.Errorf("%d rows, warnings %q", r.Rows, then.warnings)
	}
	mustEqual(t, contents(t, auto.folder(auto.Targets[0])), contents(t, plain.folder(plain.Targets[0])))

	given := asked(3)
	if _, err := runOn(context.Background(), on(d), given, &watcher{}); err == nil || !strings.Contains(err.Error(), "--synthetic-rows 0 with --restart") {
		t.Errorf("with three rows asked for: %v", err)
	}
	given.SyntheticRows, given.Restart = 0, true // as it says
	mustRun(t, given)
}

// Perplexity is that of the rows that were given, be they fewer than those of measuring.
func TestFewerRowsThanMeasured(t *testing.T) {
	source := sourceModel(t, "llama")
	var reports []*Report
	for _, synthetic := range []SyntheticRows{0, 5} {
		o := options(t, source, "4.0")
		o.Data.Rows, o.Data.MeasureRows, o.SyntheticRows = 2, 4, synthetic
		r, _ := mustRun(t, o)
		reports = append(reports, r)
	}
	if a, b := reports[0].Reference, reports[1].Reference; a != b {
		t.Errorf("perplexity of the source %v, with rows that it has written %v", a, b)
	}
}

// A job that begins without rows of the source, as it is to take little memory, has none when it
// goes on with much: its model is that of the job as it began.
func TestJobGoesOnWithoutRows(t *testing.T) {
	source := sourceModel(t, "llama")
	tokenized(t, source, 128, 2)
	d := small{openCPU(t), 1 << 40}
	plain := options(t, source, "4.0")
	plain.conditions.product = 32
	begun := options(t, source, "4.0")
	begun.Data.File, begun.conditions.product = plain.Data.File, 32
	plain.Quality, begun.Quality = Fast, Fast
	if _, err := runOn(context.Background(), on(d), plain, &watcher{}); err != nil {
		t.Fatal(err)
	}
	begun.SyntheticRows, begun.LowMemory = AutoRows, true
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{}
	w.step = func() {
		if w.stage == "quantize 4.0" {
			cancel()
		}
	}
	if _, err := runOn(ctx, on(d), begun, w); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(w.notes, func(s string) bool { return strings.Contains(s, "no rows are sampled") }) {
		t.Errorf("notes %q", w.notes)
	}
	begun.LowMemory = false
	r, err := runOn(context.Background(), on(d), begun, &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rows != 8 {
		t.Errorf("%d rows", r.Rows)
	}
	mustEqual(t, contents(t, begun.folder(begun.Targets[0])), contents(t, plain.folder(plain.Targets[0])))
}

// busy is a device of whose memory others have a part.
type busy struct {
	small
	total int
}

func (b busy) MemInfo() (free, total int) { return b.free, b.total }

// Rows are sampled where what is free of the device's memory holds as many as all of it has
// written at once; --gpu-memory has fewer written at once.
func TestRoomToSample(t *testing.T) {
	source, mb := sourceModel(t, "llama"), 1_000_000
	o := options(t, source, "4.0")
	o.Quality, o.conditions.product, o.conditions.together = Fast, 32, 128
	for _, c := range []struct {
		name    string
		rows    SyntheticRows
		limit   int
		refused bool
	}{
		{name: "a few rows", rows: 40},
		{name: "many", rows: 40_000, refused: true},
		{name: "many, fewer at once", rows: 40_000, limit: 100 * mb},
	} {
		o.SyntheticRows, o.GPUMemory = c.rows, c.limit
		r, err := open(context.Background(), on(busy{small{openCPU(t), 100 * mb}, 1 << 40}), restarted(o), &watcher{})
		if c.refused != (err != nil) || c.refused && !(errors.Is(err, ErrRefused) && strings.Contains(err.Error(), "with --gpu-memory 0.1 it writes fewer at once")) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			if need := r.memory.Planned(); need > 100*mb {
				t.Errorf("%s: %d bytes are planned", c.name, need)
			}
			r.close()
		}
	}
}

// A job with rows of the source does not go on where there is no room to weigh tokens by it,
// and does when there is.
func TestRoomToWeigh(t *testing.T) {
	source := sourceModel(t, "llama")
	o := options(t, source, "4.0")
	o.SyntheticRows, o.conditions.product, o.conditions.together = 3, 32, 128
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{}
	w.step = func() {
		if w.stage == "measure" {
			cancel()
		}
	}
	if _, err := runOn(ctx, on(small{openCPU(t), 1 << 40}), o, w); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := runOn(context.Background(), on(small{openCPU(t), 20_000_000}), o, &watcher{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "weighs tokens") {
		t.Errorf("error %v", err)
	}
	if _, err := runOn(context.Background(), on(small{openCPU(t), 1 << 40}), o, &watcher{}); err != nil {
		t.Error(err)
	}
}

// A job that has some of the rows that the source writes does not give them up where there is no
// room to write the others.
func TestRowsAreNotGivenUp(t *testing.T) {
	source := sourceModel(t, "llama")
	tokenized(t, source, 128, 2)
	o := options(t, source, "4.0")
	o.SyntheticRows, o.Data.Length, o.Quality, o.conditions.product, o.conditions.together = AutoRows, 16, Fast, 32, 16
	d := small{openCPU(t), 5_200_000} // for most rows at once
	until := func(stage string, done int) error {
		ctx, cancel := context.WithCancel(context.Background())
		w := &watcher{}
		w.step = func() {
			if w.stage == stage && w.done > done {
				cancel()
			}
		}
		_, err := runOn(ctx, on(d), o, w)
		return err
	}
	if err := until("sample text", 17); !errors.Is(err, context.Canceled) || !exists(filepath.Join(o.jobDir(), "synthetic.begun.safetensors")) {
		t.Fatalf("no rows are kept: %v", err)
	}
	o.LowMemory = true
	if err := until("measure", 0); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "some of the rows") {
		t.Errorf("error %v", err)
	}
	o.LowMemory = false
	if err := until("measure", 0); !errors.Is(err, context.Canceled) || !exists(filepath.Join(o.jobDir(), syntheticTokens)) {
		t.Errorf("not all rows are there: %v", err)
	}
}

// A job that is interrupted while the source writes rows, for quantizing or for training, goes on
// behind those that were kept, to the same bytes.
func TestSamplingGoesOn(t *testing.T) {
	source := sourceModel(t, "llama")
	for name, c := range map[string]struct {
		begun    string
		finished int // steps of 20 that are kept
		asked    func() *Options
	}{
		"for quantizing": {"synthetic.begun.safetensors", 17, func() *Options { // 256 of 300 rows
			o := options(t, source, "4.0")
			o.SyntheticRows, o.Data.Length = 300, 16
			return o
		}},
		"for training": {"training.begun.safetensors", 16, func() *Options { // 256 of 316 rows
			o := trained(t, source, "4.0")
			o.Data.Length = 16
			o.conditions.trained = 300 * 16 * float64(cpuSchooling.times)
			return o
		}},
	} {
		t.Run(name, func(t *testing.T) {
			straight, o := c.asked(), c.asked()
			o.Data.File = straight.Data.File
			mustRun(t, straight)
			for range 2 { // it is interrupted behind the rows that it kept, then at once
				ctx, cancel := context.WithCancel(context.Background())
				w := &watcher{}
				w.step = func() {
					if w.stage == "sample text" && w.done > c.finished {
						cancel()
					}
				}
				if _, err := runOn(ctx, on(openCPU(t)), o, w); !errors.Is(err, context.Canceled) || w.stage != "sample text" {
					t.Fatalf("%v, in %s", err, w.stage)
				}
				if !exists(filepath.Join(o.jobDir(), c.begun)) {
					t.Fatal("no rows are kept")
				}
			}
			_, w := mustRun(t, o)
			before := 0
			for _, s := range w.steps {
				if strings.HasPrefix(s, "sample text") && strings.HasSuffix(s, "done before") {
					before++
				}
			}
			if before != c.finished {
				t.Errorf("%d steps of sampling were done before, want %d", before, c.finished)
			}
			if exists(filepath.Join(o.jobDir(), c.begun)) {
				t.Error("rows that were begun are still there")
			}
			mustEqual(t, contents(t, o.Work), contents(t, straight.Work))
		})
	}
}

// Columns of the head behind the tokenizer's tokens are never drawn.
func TestPaddedVocabulary(t *testing.T) {
	source := sourceModel(t, "llama")
	tokenized(t, source, 90, 2)
	o := options(t, source, "4.0")
	o.SyntheticRows = 5
	mustRun(t, o)
	r, err := open(context.Background(), on(openCPU(t)), o, &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if n := len(r.tokens.synthetic); n != 5 {
		t.Fatalf("%d rows", n)
	}
	for _, row := range r.tokens.synthetic {
		if len(row) != 64 || slices.Min(row) < 2 || slices.Max(row) >= 90 {
			t.Errorf("row %v", row)
		}
	}
}

// Data that are token ids need no tokenizer: the source writes the same rows where it has none
// and where it has one of a kind that is not known.
func TestRowsWithoutTokenizer(t *testing.T) {
	var want []byte
	for _, tokenizer := range []string{"", `{"model": {"type": "WordPiece"}}`, "{"} {
		source := sourceModel(t, "llama")
		if tokenizer != "" {
			if err := os.WriteFile(filepath.Join(source, "tokenizer.json"), []byte(tokenizer), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		o := options(t, source, "4.0")
		o.SyntheticRows = 3
		ctx, cancel := context.WithCancel(context.Background())
		w := &watcher{}
		w.step = func() {
			if w.stage == "measure" {
				cancel()
			}
		}
		if _, err := runOn(ctx, on(openCPU(t)), o, w); !errors.Is(err, context.Canceled) {
			t.Fatalf("tokenizer %q: %v", tokenizer, err)
		}
		if n := len(w.warnings); (n > 0) != (tokenizer != "") {
			t.Errorf("tokenizer %q: warnings %q", tokenizer, w.warnings)
		}
		got, err := os.ReadFile(filepath.Join(o.jobDir(), syntheticTokens))
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("tokenizer %q: other rows than without", tokenizer)
		}
	}
}
