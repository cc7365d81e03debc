package convert

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/tensor"
)

// ownMemory is a CPU whose memory is its own, and counted.
type ownMemory struct {
	*devtest.Counter
	free int
}

func (d ownMemory) MemInfo() (free, total int)            { return d.free, d.free }
func (d ownMemory) Workspace(rows, width int) int         { return 0 }
func (d ownMemory) QuantizeWorkspace(k, n, count int) int { return 0 }
func (d ownMemory) MemPeak() int                          { return d.Peak() }

// joining has, as ownMemory, memory of its own, and makes products of conversion with what follows
// them, whose bytes are others then. What it needs for that is not counted.
type joining struct{ ownMemory }

func (d joining) Joined(p device.Products, w tensor.Tensor) bool {
	return devtest.Join(d.Quantize, p, w, 1.0/256)
}

// taken converts with so much memory, checks what was planned against what was taken,
// and returns that and the files, or nothing if the job is refused.
func taken(t *testing.T, source string, free int, low bool) (*Memory, map[string]string) {
	t.Helper()
	o := options(t, source, "4.0")
	o.LowMemory, o.Data.MeasureRows = low, 2 // with more, measuring takes the most, of matrices whose 32 rows the CPU fills up to 128
	o.conditions.together, o.conditions.product = 128, 32
	d := joining{ownMemory{devtest.Counting(openCPU(t)), free}}
	r, err := runOn(context.Background(), on(d), o, &watcher{})
	if errors.Is(err, ErrRefused) {
		if !strings.Contains(err.Error(), "of GPU memory") {
			t.Errorf("error %v", err)
		}
		return nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	planned, peak := r.Memory.Planned(), d.Peak()
	t.Logf("%d free: %d planned (%d, %d), %d taken, hidden states: %s, held %v, weights %v", free, planned, r.Memory.Measure, r.Memory.Quantize, peak, r.Memory.Hidden, r.Memory.Held, r.Memory.Weights)
	if peak > planned || float64(peak) < 0.9*float64(planned) {
		t.Errorf("%d bytes planned, %d taken", planned, peak)
	}
	return r.Memory, contents(t, o.folder(o.Targets[0]))
}

// What is planned is what is taken, within a tenth, wherever things are kept, and the
// files are the same.
func TestMemoryPlan(t *testing.T) {
	for _, name := range []string{"llama", "qwen2_moe"} {
		t.Run(name, func(t *testing.T) {
			source := sourceModel(t, name)
			most, want := taken(t, source, 1<<40, false)
			if !most.Weights || !most.Held || most.Hidden != "gpu" {
				t.Errorf("with plenty of memory %+v", most)
			}
			less := 0
			for _, share := range []float64{0.98, 0.7} {
				m, got := taken(t, source, int(share*float64(most.Planned())), false)
				if m != nil && !maps.Equal(got, want) {
					t.Errorf("other files with %.2f of the memory", share)
				}
				if m == nil {
					less++
				}
			}
			least, got := taken(t, source, 1<<40, true)
			if least.Planned() >= most.Planned() || !maps.Equal(got, want) {
				t.Errorf("low memory: %+v", least)
			}
		})
	}
}

// What is said of a machine's memory is not less than what is taken, also where what
// linears read is held between the steps of a module.
func TestMachineMemory(t *testing.T) {
	for _, rows := range []int{8, 64} {
		o := options(t, sourceModel(t, "llama"), "4.0")
		o.Data.Rows, o.Data.MeasureRows, o.conditions.product = rows, 2, 32 // as in taken
		d := devtest.Counting(openCPU(t))
		r, err := open(context.Background(), on(d), o, &watcher{})
		if err != nil {
			t.Fatal(err)
		}
		planned, streams, held := r.workspace(o), r.quantizeStreams(), r.memory.Held
		r.close()
		if _, err := runOn(context.Background(), on(d), restarted(o), &watcher{}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d rows: %d planned beside %d of hidden states, %d taken, held %v", rows, planned, streams, d.Peak(), held)
		if d.Peak() > planned+streams || !held {
			t.Errorf("%d rows: %d planned, %d taken, held %v", rows, planned+streams, d.Peak(), held)
		}
	}
}

// restarted returns options with which a job begins again.
func restarted(o *Options) *Options {
	again := *o
	again.Restart = true
	return &again
}

// What cannot fit is refused, with what would.
func TestTooLittleMemory(t *testing.T) {
	source := sourceModel(t, "llama")
	for _, free := range []int{1000, 1 << 20} {
		if m, _ := taken(t, source, free, false); m != nil {
			t.Errorf("%d bytes: %+v", free, m)
		}
	}
}

// What the speed of a GPU is measured by has room in what may be taken of its memory.
func TestSpeedTakesNoMoreThanIsFree(t *testing.T) {
	for _, c := range []struct{ free, limit, want int }{
		{1 << 40, 0, sideOnGPU}, {1 << 40, 300 << 20, 4096}, {300 << 20, 1 << 40, 4096}, {4 << 20, 0, sideOnCPU}, {1000, 0, sideOnCPU},
	} {
		r := &run{dev: small{openCPU(t), c.free}, opts: &Options{GPUMemory: c.limit}}
		if got := r.side(); got != c.want {
			t.Errorf("%d bytes free, %d to be taken: a side of %d, want %d", c.free, c.limit, got, c.want)
		}
	}
}
