package infer

import (
	"context"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/devices"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// watched is a device that counts what the host has it do beside replays.
type watched struct {
	device.Device
	recordings, replays, uploads int
}

func (w *watched) Record(fn func()) (func(), error) {
	w.recordings++
	replay, err := w.Device.Record(fn)
	return func() { w.replays++; replay() }, err
}

func (w *watched) Upload(dst tensor.Tensor, src []byte) {
	w.uploads++
	w.Device.Upload(dst, src)
}

// Every device records its part of a decode step once; a token is a replay on each of
// them, and one read of a ring. Only devices that cannot reach each other copy through the host.
func TestDecodeIsRecorded(t *testing.T) {
	const limit = 12
	one, _ := generate(t, &Generation{Limit: limit})
	for n := 1; n <= 2; n++ {
		var list devices.List
		var all []*watched
		for range n {
			w := &watched{Device: devtest.CPU(t)}
			all, list = append(all, w), append(list, w)
		}
		e, err := open(golden("arch/llama"), list, Options{Positions: 64})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		g := &Generation{Prompt: someIDs(6, 100), Limit: limit, Text: spelled{[]string{"a"}}}
		for turn := range 2 {
			for _, w := range all {
				w.recordings, w.replays, w.uploads = 0, 0, 0
			}
			r, err := e.Generate(context.Background(), g)
			if err != nil || !slices.Equal(r.Tokens, one.Tokens) {
				t.Fatalf("%v: tokens %v, on one device %v", err, r.Tokens, one.Tokens)
			}
			for i, w := range all {
				if recorded := 1 - turn; w.recordings != recorded || w.replays != limit-1-recorded {
					t.Errorf("device %d of %d, turn %d: %d recordings and %d replays", i, n, turn, w.recordings, w.replays)
				}
			}
			if e.choice.taken != (turn+1)*limit || e.choice.begun != e.choice.taken {
				t.Errorf("%d devices, turn %d: %d choices and %d reads for %d tokens", n, turn, e.choice.begun, e.choice.taken, limit)
			}
			if n == 1 && all[0].uploads > 10 {
				t.Errorf("%d uploads for %d tokens", all[0].uploads, limit)
			}
		}
	}
}

// A step is recorded once for each limit that its positions may be below, when a step that is
// begun comes to it: however many are in front of the host, of whichever sequence is furthest,
// and not again when a text goes back.
func TestReaches(t *testing.T) {
	const first, limit = device.LeastReach - 7, 20
	w := &watched{Device: devtest.CPU(t)}
	e, err := open(golden("arch/llama"), devices.List{w}, Options{Positions: 2 * device.MostReach, Sequences: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	recorded := func(what string, do func() error, want ...int) {
		t.Helper()
		w.recordings = 0
		if err := do(); err != nil {
			t.Fatal(err)
		}
		var reaches []int
		for k := range e.replays {
			reaches = append(reaches, k.reach*10+k.rows)
		}
		slices.Sort(reaches)
		if slices.Sort(want); !slices.Equal(reaches, want) {
			t.Errorf("%s: limits and rows %v, want %v", what, reaches, want)
		}
	}
	const few, more = 10*device.LeastReach + 1, 20*device.LeastReach + 1
	g := &Generation{Prompt: someIDs(first, 100), Limit: limit, Text: spelled{[]string{"a"}}}
	for _, depth := range []int{1, 16} {
		for turn := range 2 {
			e.depth = depth
			recorded("a text", func() error { _, err := e.Generate(context.Background(), g); return err }, few, more)
			if turn+depth > 1 && w.recordings > 0 {
				t.Errorf("%d recordings of a text that went back", w.recordings)
			}
		}
	}
	step := func(at int) func() error {
		runs := []Run{{Sequence: 0, First: 3, IDs: []int32{1}}, {Sequence: 1, First: at, IDs: []int32{2}}}
		return func() error { return e.Step(runs, func(int, int, [][]float32) {}) }
	}
	recorded("two sequences", step(device.LeastReach), few, more, more+1)
	recorded("two that are short", step(4), few, more, few+1, more+1)
	recorded("behind all limits", step(device.MostReach), few, more, few+1, more+1, 2)
}

// told is a device that notes what single rows are told of their positions.
type told struct {
	device.Device
	reaches []int
}

func (u *told) Mix(y, q, k, v, freqs tensor.Tensor, c device.Cache, layer int, h device.Heads, r device.Rope, a device.Attend, b device.Batch) {
	if q.Rows == 1 && layer == 0 {
		u.reaches = append(u.reaches, b.Reach)
	}
	u.Device.Mix(y, q, k, v, freqs, c, layer, h, r, a, b)
}

// alone are weights that no group takes.
type alone struct{ model.Dense }

// ungroup has the host wait for the choice of experts, so that steps are not recorded.
func ungroup(t *testing.T, modules []*model.Module) {
	for _, m := range modules {
		for _, s := range m.Sites() {
			for _, l := range s.Linears {
				if w, ok := l.W.(model.Dense); ok && s.Routed {
					l.W = alone{w}
				}
			}
		}
	}
	if !slices.ContainsFunc(modules, (*model.Module).Waits) {
		t.Fatal("nothing waits")
	}
}

// Steps that cannot be recorded are told the same of their positions, however often a text
// goes back.
func TestReachesUnrecorded(t *testing.T) {
	const first, limit = device.LeastReach - 3, 6
	u := &told{Device: devtest.CPU(t)}
	e, err := open(golden("arch/qwen2_moe"), devices.List{u}, Options{Positions: 2 * device.LeastReach})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ungroup(t, e.stages[0].modules)
	want := []int{device.LeastReach, device.LeastReach, device.LeastReach, 2 * device.LeastReach, 2 * device.LeastReach}
	for turn := range 2 {
		u.reaches = nil
		if _, err := e.Generate(context.Background(), &Generation{Prompt: someIDs(first, 100), Limit: limit, Text: spelled{[]string{"a"}}}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(u.reaches, want) {
			t.Errorf("turn %d: positions below %v, want %v", turn, u.reaches, want)
		}
	}
}

// A text that ends leaves nothing behind of the step that was begun after it.
func TestStepAhead(t *testing.T) {
	e := openEngine(t, golden("arch/llama"), Options{Positions: 64}, 1)
	s := &Session{Engine: e}
	g := &Generation{Prompt: someIDs(6, 100), Limit: 12, Text: spelled{[]string{"a"}}}
	all, err := s.Generate(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	g.End = all.Tokens[5:6]
	cut, err := s.Generate(context.Background(), g)
	if err != nil || cut.Reason != EndToken {
		t.Fatalf("%v, %+v", err, cut)
	}
	g.Prompt, g.End = slices.Concat(g.Prompt, cut.Tokens), nil
	rest, err := s.Generate(context.Background(), g)
	if err != nil || !slices.Equal(rest.Tokens[:12-len(cut.Tokens)], all.Tokens[len(cut.Tokens):]) {
		t.Fatalf("%v: %v goes on as %v, want %v", err, cut.Tokens, rest.Tokens, all.Tokens)
	}
}

// A context that ends before the text does is an error; one that ends with it is not.
func TestContextEnds(t *testing.T) {
	for limit, fails := range map[int]bool{3: false, 4: true} { // the last token takes no position
		e := openEngine(t, golden("arch/llama"), Options{Positions: 8}, 1)
		r, err := e.Generate(context.Background(), &Generation{Prompt: someIDs(6, 100), Limit: limit, Text: spelled{[]string{"a"}}})
		if (err != nil) != fails || len(r.Tokens) != 3 {
			t.Errorf("limit %d: %v, %+v", limit, err, r)
		}
	}
}
