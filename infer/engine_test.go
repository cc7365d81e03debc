package infer

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/devices"
	"exl2/internal/model"
)

func golden(name string) string { return filepath.Join("..", "testdata", "golden", name) }

func openEngine(t testing.TB, dir string, o Options, n int) *Engine {
	t.Helper()
	var list devices.List
	for range n {
		list = append(list, devtest.CPU(t))
	}
	e, err := open(dir, list, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func someIDs(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i*31 + 7*i + 3) % vocab)
	}
	return ids
}

// whole returns the logits of every position, computed in one pass.
func whole(t testing.TB, e *Engine, ids []int32) [][]float32 {
	t.Helper()
	var all [][]float32
	if err := e.all(t.Context(), ids, func(_ int, rows [][]float32) { all = append(all, rows...) }); err != nil {
		t.Fatal(err)
	}
	return all
}

func mustBeNear(t testing.TB, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d < 2e-4) {
			t.Fatalf("%s: logit %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// However a sequence is fed - at once, in chunks, token by token, over one
// device or several - its logits are the same.
func TestCacheEqualsWholePass(t *testing.T) {
	for _, name := range []string{"arch/llama", "arch/mistral", "arch/llama_yarn", "arch/qwen3_5_text", "arch/qwen3_next", "exl2/qwen2-bias-2.75bpw"} {
		t.Run(name, func(t *testing.T) {
			const n = 40
			ref := openEngine(t, golden(name), Options{Positions: n, Chunk: n}, 1)
			ids := someIDs(n, 120)
			want := whole(t, ref, ids)
			for _, c := range []struct {
				what           string
				devices, chunk int
			}{{"chunks of 7", 1, 7}, {"two devices", 2, n}, {"more devices than layers", 5, 16}} {
				e := openEngine(t, golden(name), Options{Positions: n, Chunk: c.chunk}, c.devices)
				for i, row := range whole(t, e, ids) {
					mustBeNear(t, c.what, row, want[i])
				}
				last, err := e.next(t.Context(), 0, 0, ids[:25])
				if err != nil {
					t.Fatal(err)
				}
				mustBeNear(t, c.what+": prefill", last, want[24])
				for i := 25; i < n; i++ {
					row, err := e.next(t.Context(), 0, i, ids[i:i+1])
					if err != nil {
						t.Fatal(err)
					}
					mustBeNear(t, c.what+": step", row, want[i])
				}
			}
		})
	}
}

// Sequences of a batch do not see each other.
func TestBatchIsSeparate(t *testing.T) {
	const n = 30
	one := openEngine(t, golden("arch/llama"), Options{Positions: n}, 1)
	e := openEngine(t, golden("arch/llama"), Options{Positions: n, Sequences: 3}, 1)
	lengths := []int{5, 17, 24}
	var prompts, steps []Run
	for s, l := range lengths {
		ids := someIDs(l+1, 100+s)
		prompts = append(prompts, Run{Sequence: s, IDs: ids[:l]})
		steps = append(steps, Run{Sequence: s, First: l, IDs: ids[l:], Logits: 1})
	}
	if err := e.Step(prompts, nil); err != nil { // no logits are wanted
		t.Fatal(err)
	}
	rows := make([][]float32, len(steps))
	if err := e.Step(steps, func(run, _ int, logits [][]float32) { rows[run] = logits[0] }); err != nil {
		t.Fatal(err)
	}
	for s, l := range lengths {
		want := whole(t, one, someIDs(l+1, 100+s))
		mustBeNear(t, "sequence", rows[s], want[l])
	}
}

// Loading ends between sublayers.
func TestLoadingIsInterrupted(t *testing.T) {
	left := 3
	_, err := Open(golden("arch/llama"), Options{Devices: "cpu", Positions: 4, Interrupted: func() error {
		if left--; left < 0 {
			return context.Canceled
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) || left != -1 {
		t.Errorf("error %v, asked %d times", err, 3-left)
	}
}

func TestContextIsBounded(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 8}, 1)
	if _, err := e.next(t.Context(), 0, 0, someIDs(9, 100)); err == nil {
		t.Error("9 positions in a context of 8: no error")
	}
	if _, err := e.next(t.Context(), 0, 8, []int32{1}); err == nil {
		t.Error("position 8 in a context of 8: no error")
	}
}

// A model is at no distance from itself, and scores each row's predictions.
func TestPerplexityOfItself(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 20, Chunk: 8}, 1)
	rows := [][]int32{someIDs(20, 128), someIDs(20, 77)}
	steps := 0
	s, err := e.Perplexity(context.Background(), e, rows, func(*Score) { steps++ })
	if err != nil {
		t.Fatal(err)
	}
	if steps != 2 || s.Tokens() != 38 || s.KL().Max > 1e-9 || s.Agreement() != 1 {
		t.Errorf("%d steps, %d tokens, KL %+v, agreement %v", steps, s.Tokens(), s.KL(), s.Agreement())
	}
	want := 0.0
	for _, ids := range rows {
		for i, row := range whole(t, e, ids)[:19] {
			want -= logProb(row, ids[i+1]) / 38
		}
	}
	if got := math.Log(s.Perplexity()); math.Abs(got-want) > 1e-6 {
		t.Errorf("mean loss %v, want %v", got, want)
	}
}

// logProb is the definition.
func logProb(row []float32, token int32) float64 {
	sum := 0.0
	for _, v := range row {
		sum += math.Exp(float64(v))
	}
	return float64(row[token]) - math.Log(sum)
}

func TestBytesPerStep(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 4}, 1)
	weights, cache := e.BytesPerStep()
	perLayer := 64*64*2 + 2*32*64 + 3*96*64 // q and o, k and v, gate, up and down
	if want := 2 * (2*perLayer + 128*64); weights != want {
		t.Errorf("%d bytes of weights, want %d", weights, want)
	}
	if want := 2 * 2 * 32 * 4; cache != want {
		t.Errorf("%d bytes of cache a position, want %d", cache, want)
	}
}

// What one step gives for runs of any lengths is what each gives alone.
func TestRunsOfAnyLength(t *testing.T) {
	const n = 60
	ref := openEngine(t, golden("arch/llama"), Options{Positions: n}, 1)
	e := openEngine(t, golden("arch/llama"), Options{Positions: n, Sequences: 5, Chunk: 16}, 2)
	var runs []Run
	for s, l := range []int{1, 1, 23, 23, 40} {
		runs = append(runs, Run{Sequence: s, IDs: someIDs(l, 90+s), Logits: min(l, 20)})
	}
	got := make([][][]float32, len(runs))
	err := e.Step(runs, func(run, first int, logits [][]float32) {
		if want := len(runs[run].IDs) - runs[run].Logits + len(got[run]); first != want {
			t.Errorf("run %d: logits from position %d on, want %d", run, first, want)
		}
		got[run] = append(got[run], logits...)
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		want := whole(t, ref, r.IDs)
		if len(got[i]) != r.Logits {
			t.Fatalf("run %d: %d logits, want %d", i, len(got[i]), r.Logits)
		}
		for k, row := range got[i] {
			mustBeNear(t, "run", row, want[len(want)-r.Logits+k])
		}
	}
}

// With linear attention a sequence goes on from where it is, or begins again, and shares nothing.
func TestLinearAttentionGoesOn(t *testing.T) {
	e := openEngine(t, golden("arch/qwen3_next"), Options{Positions: 600, Sequences: 2}, 1)
	ids := someIDs(300, 120)
	if _, err := e.next(t.Context(), 0, 0, ids); err != nil {
		t.Fatal(err)
	}
	if n := e.Share(1, 0, 300); n != 0 {
		t.Errorf("%d positions are shared", n)
	}
	for _, first := range []int{1, 299, 301} {
		if _, err := e.next(t.Context(), 0, first, ids[:2]); err == nil {
			t.Errorf("a run from position %d, of a sequence at 300", first)
		}
	}
	if _, err := e.next(t.Context(), 0, 300, ids[:2]); err != nil {
		t.Fatal(err)
	}
	again, err := e.next(t.Context(), 0, 0, ids[:20])
	if err != nil {
		t.Fatal(err)
	}
	mustBeNear(t, "from the beginning", again, whole(t, openEngine(t, golden("arch/qwen3_next"), Options{Positions: 20}, 1), ids[:20])[19])
}

// Sequences that share their beginning go on apart, and what is shared cannot be
// written.
func TestShare(t *testing.T) {
	const n, common = 2*model.PageRows + 40, model.PageRows + 30
	ref := openEngine(t, golden("arch/llama"), Options{Positions: n}, 1)
	e := openEngine(t, golden("arch/llama"), Options{Positions: n, Sequences: 2}, 1)
	ids := someIDs(common+20, 120)
	if _, err := e.next(t.Context(), 0, 0, ids); err != nil {
		t.Fatal(err)
	}
	shared := e.Share(1, 0, common)
	if shared != model.PageRows {
		t.Fatalf("%d positions shared, want a page of %d", shared, model.PageRows)
	}
	if _, err := e.next(t.Context(), 1, shared-1, ids[:1]); err == nil {
		t.Error("a shared position was written")
	}
	other := append(slices.Clone(ids[:common]), someIDs(30, 70)...)
	got, err := e.next(t.Context(), 1, shared, other[shared:])
	if err != nil {
		t.Fatal(err)
	}
	want := whole(t, ref, other)
	mustBeNear(t, "sequence that shares", got, want[len(other)-1])
	again, err := e.next(t.Context(), 0, len(ids), ids[:1]) // the first one has not noticed
	if err != nil {
		t.Fatal(err)
	}
	want = whole(t, ref, append(slices.Clone(ids), ids[0]))
	mustBeNear(t, "sequence that is shared", again, want[len(ids)])
	fresh, err := e.next(t.Context(), 1, 0, other[:300]) // pages of its own again
	if err != nil {
		t.Fatal(err)
	}
	mustBeNear(t, "from the beginning", fresh, whole(t, ref, other[:300])[299])
}
