package cuda

import (
	"testing"

	"exl2/internal/tensor"
)

// Steps that two GPUs have recorded follow each other without the host, which waits
// for neither and launches no kernel.
func TestRecordingsOnTwoGPUs(t *testing.T) {
	f := newFake()
	a, b := f.open(t), f.open(t)
	x, y := a.Alloc(tensor.F32, 1, 8), b.Alloc(tensor.F32, 1, 8)
	first, err := a.Record(func() { a.AddScaled(x, x, 1) })
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Record(func() { b.AddScaled(y, y, 1) })
	if err != nil {
		t.Fatal(err)
	}
	clear(f.calls)
	const steps = 5
	for range steps {
		first()
		if !a.CopyTo(b, y, x) {
			t.Fatal("no copy")
		}
		second()
	}
	for s, want := range map[symbol]int{
		cuGraphLaunch: 2 * steps, cuMemcpyPeerAsync: steps, cuStreamWaitEvent: 2 * steps,
		cuLaunchKernel: 0, cuLaunchKernelEx: 0, cuStreamSynchronize: 0, cuEventSynchronize: 0,
	} {
		if f.calls[s] != want {
			t.Errorf("call %d: %d times, want %d", s, f.calls[s], want)
		}
	}
}
