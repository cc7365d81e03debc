package cuda

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"exl2/internal/tensor"
)

// A fake GPU's replays are tokens that come late, when the host has looked for them.
func TestTokenRing(t *testing.T) {
	f := newFake()
	d := f.open(t)
	defer d.Close()
	r := d.NewTokenRing(2).(*tokenRing)
	entries := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(r.slots.Mem.(*memory).host))), 64*2)
	put := func(n, row int, token int32) { entries[n%64*2+row] = uint64(n)<<32 | uint64(uint32(token)) }
	r.Begin(1)
	for n := 1; n < 200; n++ {
		put(n, 0, int32(3*n))
		looks := 0
		f.fails[cuStreamQuery], f.called = notReady, func(s symbol) {
			if s == cuStreamQuery {
				if looks++; looks == 2 {
					put(n, 1, -5)
				}
			}
		}
		if n%50 != 1 { // already there
			put(n, 1, -5)
		}
		got, err := r.Read(n, 2)
		if err != nil || got[0] != int32(3*n) || got[1] != -5 {
			t.Fatalf("entry %d: %v, error %v", n, got, err)
		}
	}
}

// What goes wrong while the host waits for a token ends the wait, and says what it was.
func TestTokenRingFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		query result
		fault int32
		want  string
	}{
		{"a kernel", 700, 0, "cuda: launch of cap_f32: an illegal memory access was encountered"},
		{"nothing comes", success, 0, "cuda: TokenRing: the GPU has nothing to do, and entry 1 is not there"},
		{"a token", notReady, tokenFault, "cuda: Embed: token id 12, vocabulary of 10"},
	} {
		f := newFake()
		d := f.open(t)
		r := d.NewTokenRing(1).(*tokenRing)
		x := d.Alloc(tensor.F32, 1, 8)
		d.Cap(x, 1, 1)
		f.fails[cuStreamQuery] = c.query
		if c.fault != 0 {
			copy(unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(d.fault.Mem.(*memory).host))), 3), []int32{c.fault, 12, 10})
			*(*uint64)(unsafe.Pointer(&r.slots.Mem.(*memory).host[8])) = 1 << 32
		}
		if _, err := r.Read(1, 1); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		d.Close()
	}
}

// A token takes the host one launch.
func TestStepTakesOneLaunch(t *testing.T) {
	f := newFake()
	d := f.open(t)
	defer d.Close()
	x := d.Alloc(tensor.F32, 1, 8)
	replay, err := d.Record(func() { d.Cap(x, 1, 1) })
	if err != nil {
		t.Fatal(err)
	}
	r := d.NewTokenRing(1).(*tokenRing)
	*(*uint64)(unsafe.Pointer(&r.slots.Mem.(*memory).host[8])) = 1<<32 | 7
	clear(f.calls)
	replay()
	if got, err := r.Read(1, 1); err != nil || got[0] != 7 {
		t.Fatalf("%v, error %v", got, err)
	}
	delete(f.calls, cuCtxSetCurrent)
	if len(f.calls) != 1 || f.calls[cuGraphLaunch] != 1 {
		t.Errorf("calls %v, want one launch", f.calls)
	}
}

// The host looks more often about when the token before came, and sleeps until then, and behind that, longer.
func TestTokenRingPause(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct{ before, waited, want time.Duration }{
		{0, 0, lookEvery}, {0, 900 * us, lookEvery},
		{1000 * us, 0, lookEvery}, {1000 * us, 720 * us, 30 * us}, {1000 * us, 748 * us, lookOften}, {1000 * us, 750 * us, lookOften}, {1000 * us, 1249 * us, lookOften},
		{1000 * us, 1250 * us, lookEvery}, {1000 * us, 90000 * us, lookEvery}, {8 * us, 0, 6 * us}, {4 * us, 0, lookOften},
	} {
		r := &tokenRing{waited: c.before}
		if got := r.pause(c.waited); got != c.want {
			t.Errorf("%v behind %v: %v, want %v", c.waited, c.before, got, c.want)
		}
	}
}
