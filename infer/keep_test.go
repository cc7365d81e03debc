package infer

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/devices"
	"exl2/internal/model"
)

const gib = 1 << 30

// Decoded weights are kept where that leaves more than half of what is free, or if it is
// asked for, with a gibibyte to spare.
func TestHowMuchIsKept(t *testing.T) {
	for _, c := range []struct {
		keep                string
		decoded, free, want int
	}{
		{"auto", 13 * gib, 130 * gib, 13 * gib},
		{"", 13 * gib, 130 * gib, 13 * gib},
		{"auto", 13 * gib, 26*gib + 1, 13 * gib},
		{"auto", 13 * gib, 26 * gib, 0},
		{"auto", 13 * gib, 19 * gib, 0}, // 7 billion weights, 24 GB
		{"auto", 0, 19 * gib, 0},
		{"auto", 13 * gib, -gib, 0},
		{"on", 13 * gib, 19 * gib, 13 * gib},
		{"on", 13 * gib, 13 * gib, 12 * gib},
		{"on", 13 * gib, gib / 2, 0},
		{"off", 13 * gib, 130 * gib, 0},
	} {
		if got := (Options{KeepDecoded: c.keep}).keep(c.decoded, c.free); got != c.want {
			t.Errorf("%q, %d to keep, %d free: %d, want %d", c.keep, c.decoded, c.free, got, c.want)
		}
	}
	if err := (Options{Positions: 1, KeepDecoded: "always"}).Check(); err == nil || err.Error() != `keep-decoded: "always", want one of [auto on off]` {
		t.Error(err)
	}
}

// A keeper is a device with memory of its own that keeps decoded weights.
type keeper struct {
	*devtest.Counter
	free, kept int
	said       []int
}

func (k *keeper) MemInfo() (free, total int)         { return k.free + k.kept, k.free + k.kept }
func (k *keeper) Workspace(rows, width int) int      { return 1000 }
func (k *keeper) DecodedBytes(rows, in, out int) int { return rows / 64 * in * out }
func (k *keeper) KeepDecoded(bytes int)              { k.said = append(k.said, bytes) }
func (k *keeper) Kept() int                          { return k.kept }
func (k *keeper) MemPeak() int                       { return 0 }

// An engine says once, behind the first prompt, how much is kept; not for single steps,
// and the plan says the same. What others keep is not free.
func TestKeepingIsSaid(t *testing.T) {
	dir := filepath.Join("..", "testdata", "golden", "exl2", "tiny-2.5bpw")
	l, files, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	all := 0
	for _, m := range l.Decoder() {
		for _, x := range m.Linears {
			all += 2 * x.In * x.Out
		}
	}
	for _, c := range []struct {
		keep       string
		free, kept int
		want       int // to be kept
		lost       int // what there may be more for what is lost between shares
		note       string
	}{
		{"auto", 1 << 40, 0, all, all / keepLoss, ""},
		{"auto", 1 << 40, 1 << 39, all, all / keepLoss, ""},
		{"auto", all, 1 << 39, 0, 0, ""},
		{"on", 1 << 40, 0, all, all / keepLoss, ""},
		{"on", gib + all + 1010, 0, all, 10, ""},
		{"on", gib + 2000, 0, 1000, 0, "keep-decoded on: " + "cpu"},
		{"off", 1 << 40, 0, 0, 0, ""},
	} {
		k := &keeper{Counter: devtest.Counting(devtest.CPU(t)), free: 1 << 40}
		var notes []string
		o := Options{Positions: 300, Chunk: 128, KeepDecoded: c.keep, Note: func(text string) { notes = append(notes, text) }}
		e, err := open(dir, devices.List{k}, o)
		if err != nil {
			t.Fatal(err)
		}
		k.free, k.kept = c.free, c.kept
		ids := someIDs(140, e.Vocab())
		for range 3 {
			if _, err := e.next(t.Context(), 0, 0, ids[:1]); err != nil {
				t.Fatal(err)
			}
		}
		if len(k.said) > 0 {
			t.Errorf("%+v: said %v in single steps", c, k.said)
		}
		for range 3 {
			if _, err := e.next(t.Context(), 0, 0, ids); err != nil {
				t.Fatal(err)
			}
		}
		var want []int
		if c.want > 0 {
			want = []int{c.want + c.lost}
		}
		if !slices.Equal(k.said, want) {
			t.Errorf("%+v: said %v, want %v", c, k.said, want)
		}
		if got := strings.Join(notes, "; "); c.note == "" != (got == "") || !strings.HasPrefix(got, c.note) {
			t.Errorf("%+v: notes %q", c, got)
		}
		e.Close()
		if want = append(want, 0); !slices.Equal(k.said, want) {
			t.Errorf("%+v: said %v when it is closed, want %v", c, k.said, want)
		}
	}
	k := &keeper{Counter: devtest.Counting(devtest.CPU(t)), free: 1 << 40}
	p := plan(l, devices.List{k}, Options{Positions: 300, Chunk: 128})
	if p[0].Kept != all {
		t.Errorf("the plan keeps %d, want %d", p[0].Kept, all)
	}
}
