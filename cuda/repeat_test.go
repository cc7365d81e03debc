package cuda

import (
	"testing"

	"exl2/internal/tensor"
)

// What is repeated is launched and zeroed again, with its arguments, and nothing is
// uploaded, allocated or freed until the end.
func TestRepeat(t *testing.T) {
	f := newFake()
	d := f.open(t)
	defer d.Close()
	x := d.Alloc(tensor.F32, 4, 64)
	fn := func() {
		list := table(d, []int32{1, 2, 3})
		y := d.Alloc(tensor.F32, 4, 64)
		d.Copy(y, x)
		d.AddScaled(x, y, 2)
		d.Free(y)
		d.Free(list)
	}
	count := func() map[symbol]int {
		all := map[symbol]int{}
		for _, s := range []symbol{cuLaunchKernel, cuLaunchKernelEx, cuMemsetD8Async, cuMemcpyDtoDAsync, cuMemcpyHtoDAsync, cuMemAlloc, cuMemFree} {
			all[s] = f.calls[s]
		}
		return all
	}
	since := func(before map[symbol]int, s symbol) int { return f.calls[s] - before[s] }
	before := count()
	again, free := d.Repeat(fn)
	first, arguments := count(), string(f.launch)
	if since(before, cuMemFree) > 0 || since(before, cuMemcpyHtoDAsync) != 1 {
		t.Errorf("the first time %d frees, %d uploads", since(before, cuMemFree), since(before, cuMemcpyHtoDAsync))
	}
	d.AddScaled(x, x, 3)
	second := count()
	again()
	for _, s := range []symbol{cuLaunchKernel, cuLaunchKernelEx, cuMemsetD8Async, cuMemcpyDtoDAsync} {
		if got, want := since(second, s), first[s]-before[s]; got != want {
			t.Errorf("%s: %d times, the first time %d", exported[s], got, want)
		}
	}
	if string(f.launch) != arguments || since(second, cuMemcpyHtoDAsync)+since(second, cuMemAlloc)+since(second, cuMemFree) > 0 {
		t.Errorf("again: other arguments, or %d uploads, %d allocations, %d frees", since(second, cuMemcpyHtoDAsync), since(second, cuMemAlloc), since(second, cuMemFree))
	}
	free()
	if n := since(second, cuMemFree); n != first[cuMemAlloc]-before[cuMemAlloc] {
		t.Errorf("%d frees of %d allocations", n, first[cuMemAlloc]-before[cuMemAlloc])
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// What has to be waited for cannot be repeated, nor what is on no tape.
func TestNotRepeated(t *testing.T) {
	d := newFake().open(t)
	defer d.Close()
	x := d.Alloc(tensor.F32, 1, 8)
	host, _ := d.AllocHost(tensor.F32, 1, 8)
	done := d.NewMark()
	replay, err := d.Record(func() {})
	if err != nil {
		t.Fatal(err)
	}
	for name, fn := range map[string]func(){
		"Sync": func() { d.Sync() }, "Download": func() { d.Download(make([]byte, 32), x) }, "Carry": func() { d.Carry(x, host, done) },
		"CopyPeer": func() { d.CopyTo(d, x, x) }, "Record": func() { d.Record(func() {}) }, "a replay": replay,
	} {
		func() {
			defer func() {
				if recover() == nil || d.tape != nil {
					t.Errorf("%s: no panic, or the tape is left", name)
				}
			}()
			d.Repeat(fn)
		}()
	}
}
