package cpu

import (
	"bytes"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"exl2/internal/tensor"
)

// Borrowed bytes are the tensor's memory itself, if they are aligned.
func TestBorrow(t *testing.T) {
	d := open(t)
	words := d.Alloc(tensor.F32, 1, 5)
	data := bytesOf(words)
	x, ok := d.Borrow(tensor.F32, 2, 2, data[4:])
	if !ok {
		t.Fatal("aligned bytes are refused")
	}
	elements[float32](words)[4] = 7
	if got := download(d, x); got.at(1, 1) != 7 {
		t.Errorf("%v: not the bytes themselves", got)
	}
	for _, c := range []struct {
		typ    tensor.Type
		offset int
		ok     bool
	}{{tensor.F32, 1, false}, {tensor.F32, 2, false}, {tensor.F16, 2, true}, {tensor.BF16, 3, false}, {tensor.U8, 3, true}, {tensor.I32, 0, true}} {
		if _, ok := d.Borrow(c.typ, 1, 4, data[c.offset:]); ok != c.ok {
			t.Errorf("%v at offset %d: %v, want %v", c.typ, c.offset, ok, c.ok)
		}
	}
}

func TestUploadDownload(t *testing.T) {
	d := open(t)
	x := d.Alloc(tensor.U8, 3, 2)
	d.Upload(x.Slice(1, 2), []byte{8, 9})
	got := make([]byte, 6)
	if d.Download(got, x); !bytes.Equal(got, []byte{0, 0, 8, 9, 0, 0}) {
		t.Errorf("%v", got)
	}
	panics(t, "an upload of too few bytes", func() { d.Upload(x, got[:5]) })
	panics(t, "a download of too many bytes", func() { d.Download(make([]byte, 7), x) })
}

// A token that the table does not have is the world's mistake: it is kept and
// reported. Wrong shapes are the programmer's: they panic.
func TestEmbed(t *testing.T) {
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	table := normal(1, 5, 8)
	w, y := upload(d, table), d.Alloc(tensor.F32, 3, 8)
	d.Embed(y, w, indexTensor(d, 4, 0, 4), 2)
	want := newGrid(3, 8)
	for i, id := range []int{4, 0, 4} {
		for j := range 8 {
			want.set(i, j, 2*table.at(id, j))
		}
	}
	near(t, download(d, y), want, 0)
	panics(t, "another number of tokens", func() { d.Embed(y, w, indexTensor(d, 1, 2), 1) })
	panics(t, "another width", func() { d.Embed(d.Alloc(tensor.F32, 1, 9), w, indexTensor(d, 1), 1) })
	for _, id := range []int32{5, -1, math.MaxInt32} {
		d, err := New()
		if err != nil {
			t.Fatal(err)
		}
		d.Embed(y, w, indexTensor(d, 0, id, 0), 1)
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "token id") {
			t.Errorf("token %d: error %v", id, err)
		}
	}
}

// Chains do their phases in order, each once, whatever has no tasks, and however
// many are at work at once.
func TestChains(t *testing.T) {
	defer setCores(4)()
	for _, atOnce := range []int{1, 3, 100} {
		const n = 20
		var done [n][]int32 // by chain: tasks done in each phase
		runChains(n, atOnce, func(i int) *phase {
			var step func() *phase
			step = func() *phase {
				k := len(done[i])
				if k > 0 && done[i][k-1] != int32((i+k-1)%5*10) {
					t.Errorf("phase %d of chain %d began after %d tasks of the one before", k, i, done[i][k-1])
				}
				if k == i%7 {
					return nil
				}
				done[i] = append(done[i], 0)
				count := &done[i][k]
				return &phase{tasks: (i + k) % 5 * 10, then: step, task: func(int) { atomic.AddInt32(count, 1) }}
			}
			return step()
		})
		for i, phases := range done {
			if len(phases) != i%7 {
				t.Errorf("chain %d did %d phases of %d", i, len(phases), i%7)
			}
		}
	}
}

// A panic in any phase of a chain is the caller's, whatever the others wait for.
func TestChainsPanic(t *testing.T) {
	defer setCores(4)()
	for _, where := range []string{"task", "then"} {
		panics(t, "a chain whose "+where+" panics", func() {
			runChains(5, 5, func(i int) *phase {
				return &phase{tasks: 20, task: func(k int) {
					if where == "task" && i == 3 && k == 11 {
						panic("a task")
					}
				}, then: func() *phase {
					if i == 3 {
						panic("a step between phases")
					}
					return nil
				}}
			})
		})
	}
}
