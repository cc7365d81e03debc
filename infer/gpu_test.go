package infer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"exl2/cuda/cudatest"
	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/devices"
	"exl2/internal/goldens"
	"exl2/internal/synth/synthtest"
)

// gpuModels lists the models that both devices run: tiny, small where it is, every
// golden, and random ones.
func gpuModels(t testing.TB) []string {
	list := []string{filepath.Join("..", "testdata", "models", "tiny")}
	if small := filepath.Join("..", "..", "shared", "models", "small"); isFolder(small) {
		list = append(list, small)
	}
	list = append(list, goldens.Dirs(t, "exl2")...)
	for _, kind := range []string{"arch", "quantized"} {
		list = append(list, goldens.Dirs(t, kind)...)
	}
	return append(list, randomModels(t)...)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// within returns n, or as many positions as the model in dir has learned, if those are fewer.
func within(t testing.TB, dir string, n int) int {
	t.Helper()
	config, err := arch.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := arch.For(config)
	if err == nil && spec.Learned > 0 {
		n = min(n, spec.Learned)
	}
	return n
}

// both opens a model on the CPU and on GPUs.
func both(t testing.TB, dir string, o Options, gpus int) (ref, got *Engine) {
	t.Helper()
	d := devtest.CPU(t)
	list := cudatest.Open[device.Device](t, gpus)
	for _, on := range []struct {
		to      **Engine
		devices devices.List
	}{{&ref, devices.List{d}}, {&got, list}} {
		e, err := open(dir, on.devices, o)
		if errors.Is(err, arch.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		*on.to = e
	}
	if _, err := got.next(t.Context(), 0, 0, []int32{1}); errors.Is(err, device.ErrUnsupported) {
		t.Skip(err)
	}
	return ref, got
}

// A gap is how far logits are apart. Of a mixture of experts a few rows are passed
// over: where two experts are as good as each other, arithmetic decides which is taken.
type gap struct {
	sum, largest, n float64
	pass            int
}

func (g *gap) add(a, b []float32) {
	const far = 0.5
	var sum, largest float64
	for i := range a {
		d := math.Abs(float64(a[i] - b[i]))
		sum += d
		largest = max(largest, d)
	}
	if largest > far && g.pass > 0 {
		g.pass--
		return
	}
	g.sum, g.n = g.sum+sum, g.n+float64(len(a))
	g.largest = max(g.largest, largest)
}

// passes returns how many rows of n are passed over.
func passes(e *Engine, n int) int {
	if e.spec.MoE.Experts == 0 {
		return 0
	}
	return n / 16
}

// check wants the gap that fp16 arithmetic may leave.
func (g *gap) check(t testing.TB, what string) {
	t.Helper()
	mean := g.sum / g.n
	if !(mean <= 0.02 && g.largest <= 0.5) {
		t.Errorf("%s: logits differ by %.5f in the mean, %.5f at most; want 0.02 and 0.5", what, mean, g.largest)
	} else {
		t.Logf("%s: logits differ by %.5f in the mean, %.5f at most", what, mean, g.largest)
	}
}

// The GPU's logits are the CPU's: of a prompt at once, and token by token.
func TestGPULogits(t *testing.T) {
	for _, dir := range gpuModels(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			n := within(t, dir, 96)
			ref, got := both(t, dir, Options{Positions: n}, 1)
			compareLogits(t, ref, got, n)
		})
	}
}

// So are those of several sequences, token by token: of as many as products of few rows and
// of several take, and attention in either way. Tokens are such that no row of a random model without experts hangs on last bits: where
// those of weights are turned, its logits change by 0.4 at most on the CPU (of others by 2 to 4, as a norm divides a state that is next to nothing).
func TestGPUBatch(t *testing.T) {
	const steps, most = 6, 35
	for _, dir := range gpuModels(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			ref, got := both(t, dir, Options{Positions: steps, Sequences: most}, 1)
			for _, rows := range []int{2, 4, 9, 16, 17, most} {
				all := [2][][]float32{}
				for i, e := range []*Engine{ref, got} {
					for pos := range steps {
						var runs []Run
						for s := range rows {
							runs = append(runs, Run{Sequence: s, First: pos, IDs: []int32{int32((3 + 3*s + pos) % e.spec.Vocab)}, Logits: 1})
						}
						all[i] = append(all[i], logitsOf(t, e, runs)...)
					}
				}
				g := gap{pass: passes(ref, len(all[0]))}
				for i := range all[0] {
					g.add(all[0][i], all[1][i])
				}
				g.check(t, fmt.Sprintf("%d sequences", rows))
			}
		})
	}
}

// Long prompts' logits are the CPU's, too, though products are made another way; and the
// same to the bit once what comes next is known, and weights are kept decoded or not.
func TestGPUPrompts(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "exl2") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			const n = 450
			ref, got := both(t, dir, Options{Positions: n}, 1)
			ids := someIDs(n, ref.Vocab())
			want, have := whole(t, ref, ids), cloned(whole(t, got, ids))
			g := gap{pass: passes(ref, n)}
			for i := range want {
				g.add(want[i], have[i])
			}
			g.check(t, "prompt")
			sameLogits(t, have, whole(t, got, ids), "the second time")
			for _, keep := range KeepDecoded {
				_, e := both(t, dir, Options{Positions: n, KeepDecoded: keep}, 1)
				k := e.stages[0].dev.(device.Keeper)
				before := k.Kept() // of others
				for range 3 {
					sameLogits(t, have, whole(t, e, ids), "keep-decoded "+keep)
				}
				if want := keep != keepOff && e.stages[0].plan.decoded > 0; k.Kept() > before != want {
					t.Errorf("keep-decoded %s: %d bytes are kept", keep, k.Kept()-before)
				}
			}
		})
	}
}

func cloned(rows [][]float32) (out [][]float32) {
	for _, r := range rows {
		out = append(out, slices.Clone(r))
	}
	return out
}

// sameLogits wants the same bits.
func sameLogits(t *testing.T, want, have [][]float32, what string) {
	t.Helper()
	for i := range want {
		if !slices.Equal(want[i], have[i]) {
			t.Fatalf("%s: position %d: logits are others", what, i)
		}
	}
}

// compareLogits compares a prompt of n tokens, and then the last of its tokens
// fed one by one.
func compareLogits(t *testing.T, ref, got *Engine, n int) {
	ids := someIDs(n, ref.Vocab())
	want, have := whole(t, ref, ids), whole(t, got, ids)
	prompt, steps := gap{pass: passes(ref, n)}, gap{pass: passes(ref, n/2)}
	for i := range want {
		prompt.add(want[i], have[i])
	}
	prompt.check(t, "prompt")
	lo := n / 2
	if _, err := got.next(t.Context(), 0, 0, ids[:lo]); err != nil {
		t.Fatal(err)
	}
	for i := lo; i < n; i++ {
		row, err := got.next(t.Context(), 0, i, ids[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		steps.add(want[i], row)
	}
	steps.check(t, "steps")
}

// Greedy continuations are equal, or part where the CPU's two best logits are
// closer than the devices' arithmetic.
func TestGPUGreedy(t *testing.T) {
	for _, dir := range gpuModels(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			const prompt = 16
			n := within(t, dir, prompt+64) - prompt
			ref, got := both(t, dir, Options{Positions: prompt + n}, 1)
			ids := someIDs(prompt, ref.Vocab())
			if err := sameGreedy(ref, got, ids, n); err != nil {
				t.Error(err)
			}
		})
	}
}

// sameGreedy continues ids on both engines by n tokens, as long as they agree, but for a few of a mixture (gap).
func sameGreedy(ref, got *Engine, ids []int32, n int) error {
	a, err := ref.next(context.Background(), 0, 0, ids)
	if err != nil {
		return err
	}
	b, err := got.next(context.Background(), 0, 0, ids)
	if err != nil {
		return err
	}
	pass := passes(ref, n)
	for i := range n {
		x, y := largest(a), largest(b)
		switch short := a[x] - a[y]; {
		case x == y:
		case short <= 0.5:
			return nil
		case pass == 0:
			return fmt.Errorf("token %d: %d, want %d, whose logit is %.4f larger on the CPU", i, y, x, short)
		default:
			pass--
		}
		if i == n-1 {
			break
		}
		if a, err = ref.next(context.Background(), 0, len(ids)+i, []int32{int32(x)}); err != nil {
			return err
		}
		if b, err = got.next(context.Background(), 0, len(ids)+i, []int32{int32(x)}); err != nil {
			return err
		}
	}
	return nil
}

func largest(v []float32) int {
	at := 0
	for i := range v {
		if v[i] > v[at] {
			at = i
		}
	}
	return at
}

// Texts of GPUs, and what they leave, are the same however many steps are in front of the
// host.
func TestGPUStepsInFront(t *testing.T) {
	for gpus := 1; gpus <= 2; gpus++ {
		for _, dir := range gpuModels(t)[:2] {
			t.Run(fmt.Sprintf("%s on %d", filepath.Base(dir), gpus), func(t *testing.T) {
				_, e := both(t, dir, Options{Positions: 160}, gpus)
				for _, s := range []Sampler{{}, {Temperature: 1.5}, {Temperature: 1, TopK: 40, TopP: 0.9, Repetition: 1.2}} {
					g := Generation{Prompt: someIDs(9, e.Vocab()), Limit: 100, Sampler: s, Seed: 7, Text: spelled{[]string{"a", "b", "c"}}}
					whole := talk(e, 1, 0, g)
					g.End = whole[0].result.Tokens[37:38]
					for _, stop := range []int{0, 20} {
						want := talk(e, 1, stop, g)
						for _, depth := range []int{0, 2, 16, mostFront} {
							sameTalk(t, talk(e, depth, stop, g), want, fmt.Sprintf("%+v, stopped after %d, %d under way", s, stop, depth))
						}
					}
				}
			})
		}
	}
}

// Texts with drafts are those without, but where the tokens of steps of one row and of several part, as a token is nearly as likely as the
// one that was taken: no earlier than that.
func TestGPUDrafts(t *testing.T) {
	for gpus := 1; gpus <= 2; gpus++ {
		for _, dir := range gpuModels(t) {
			t.Run(fmt.Sprintf("%s on %d", filepath.Base(dir), gpus), func(t *testing.T) {
				n := within(t, dir, 160)
				ref, e := both(t, dir, Options{Positions: n}, gpus)
				if e.spec.Recurrent() {
					t.Skip("it has linear attention")
				}
				prompt := repeated(e.Vocab())
				g := Generation{Prompt: prompt, Limit: n - len(prompt), Text: spelled{[]string{"a", "b", "c"}}}
				want, err := e.Generate(t.Context(), &g)
				if err != nil {
					t.Fatal(err)
				}
				for _, by := range []string{"", dir} {
					if by != "" {
						openDraft(t, e, by)
					}
					for _, draft := range []int{1, 3, MostDraft} {
						g.Draft = draft
						got, err := e.Generate(t.Context(), &g)
						if err != nil || len(got.Tokens) != len(want.Tokens) {
							t.Fatalf("drafts of %d by %q: %+v, %v, want %d tokens", draft, by, got, err, len(want.Tokens))
						}
						if by != "" && e.spec.MoE.Experts == 0 && got.Accepted < got.Drafted/2 {
							t.Errorf("%d of %d tokens that the model itself has drafted were accepted, want nearly all", got.Accepted, got.Drafted)
						}
						if err := likely(ref, prompt, want.Tokens, got.Tokens); err != nil {
							t.Errorf("drafts of %d by %q: %v", draft, by, err)
						}
					}
				}
			})
		}
	}
}

// likely reports an error where texts part and the second one's token is much less likely than the first one's behind what they share.
func likely(ref *Engine, prompt, want, got []int32) error {
	for i := range want {
		if got[i] == want[i] {
			continue
		}
		logits, err := ref.next(context.Background(), 0, 0, slices.Concat(prompt, want[:i]))
		if err != nil {
			return err
		}
		if short := logits[want[i]] - logits[got[i]]; short > 0.5 && ref.spec.MoE.Experts == 0 {
			return fmt.Errorf("token %d: %d, want %d, whose logit is %.4f larger on the CPU", i, got[i], want[i], short)
		}
		return nil
	}
	return nil
}

// Steps that are at a limit of positions, where attention of one row, or of two, changes its kernels, give the CPU's
// logits, in front of it, behind it and in front of it again, of one sequence and of several
// of other lengths; and the same texts however many of them are in front of the host.
func TestGPUReaches(t *testing.T) {
	for _, dir := range synthtest.Write(t, reaching, 4) {
		for gpus := 1; gpus <= 2; gpus++ {
			for _, c := range []struct{ limit, others int }{{device.LeastReach, 1}, {2 * device.LeastReach, 3}} {
				t.Run(fmt.Sprintf("%s on %d, %d", filepath.Base(dir), gpus, c.limit), func(t *testing.T) { reaches(t, dir, gpus, c.limit, c.others) })
			}
		}
	}
}

// reaches is TestGPUReaches of a model and a limit, with so many sequences that begin beside the one that is there.
func reaches(t *testing.T, dir string, gpus, limit, others int) {
	n := limit + 6
	ref, got := both(t, dir, Options{Positions: 4 * limit, Sequences: 1 + others}, gpus)
	ids := someIDs(n, ref.Vocab())
	want := whole(t, ref, ids)
	steps := gap{}
	for _, from := range []int{limit - 6, limit - 3} { // the second time steps go back
		if from == limit-6 {
			if _, err := got.next(t.Context(), 0, 0, ids[:from]); err != nil {
				t.Fatal(err)
			}
		}
		for i := from; i < n; i++ {
			row, err := got.next(t.Context(), 0, i, ids[i:i+1])
			if err != nil {
				t.Fatal(err)
			}
			steps.add(want[i], row)
		}
	}
	steps.check(t, "steps")
	together := gap{}
	for i := limit - 2; i < n; i++ {
		runs := []Run{{Sequence: 0, First: i, IDs: ids[i : i+1], Logits: 1}}
		for s := 1; s <= others; s++ {
			at := i - limit + 2
			runs = append(runs, Run{Sequence: s, First: at, IDs: ids[at : at+1], Logits: 1})
		}
		err := got.Step(runs, func(run, first int, logits [][]float32) { together.add(want[first], logits[0]) })
		if err != nil {
			t.Fatal(err)
		}
	}
	together.check(t, "sequences")
	g := Generation{Prompt: ids[:limit-30], Limit: 40, Text: spelled{[]string{"a", "b", "c"}}}
	one := talk(got, 1, 0, g)
	for _, depth := range []int{0, mostFront} {
		sameTalk(t, talk(got, depth, 0, g), one, fmt.Sprintf("%d under way", depth))
	}
}

// A model whose layers are divided among two GPUs computes the same, whatever its layers hand on and keep.
func TestTwoGPUs(t *testing.T) {
	for _, dir := range gpuModels(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			n := within(t, dir, 96)
			ref, got := both(t, dir, Options{Positions: n}, 2)
			compareLogits(t, ref, got, n)
			_, one := both(t, dir, Options{Positions: n}, 1)
			ids := someIDs(n, ref.Vocab())
			a, b := whole(t, one, ids), whole(t, got, ids)
			for i := range a {
				for j := range a[i] {
					if a[i][j] != b[i][j] {
						t.Fatalf("position %d, logit %d: %v on one GPU, %v on two", i, j, a[i][j], b[i][j])
					}
				}
			}
		})
	}
}
