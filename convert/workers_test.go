package convert

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync/atomic"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/machine"
	"exl2/internal/tensor"
)

func someCPUs(t *testing.T, n int) (list []device.Quantize) {
	for range n {
		list = append(list, openCPU(t))
	}
	return list
}

// Any number of devices makes the same files, of one target and of several, without a
// break and after one anywhere.
func TestSeveralDevices(t *testing.T) {
	source := sourceModel(t, "llama")
	want := options(t, source, "3.0", "4.0")
	mustRun(t, want)
	for _, devices := range []int{2, 3} {
		for _, stop := range []int{0, 1, 3, 6, 9, 13} { // 0: never
			o := options(t, source, "3.0", "4.0")
			if stop > 0 {
				ctx, cancel := context.WithCancel(context.Background())
				steps := 0
				w := &watcher{step: func() {
					if steps++; steps == stop {
						cancel()
					}
				}}
				if _, err := runOn(ctx, someCPUs(t, devices), o, w); !errors.Is(err, context.Canceled) {
					t.Fatalf("stopped at step %d: error %v", stop, err)
				}
			}
			r, err := runOn(context.Background(), someCPUs(t, devices), o, &watcher{})
			if err != nil {
				t.Fatalf("%d devices, stopped at step %d: %v", devices, stop, err)
			}
			if len(r.Devices) != devices {
				t.Errorf("devices %v, want %d", r.Devices, devices)
			}
			for i, target := range want.Targets {
				if !maps.Equal(contents(t, want.folder(target)), contents(t, o.folder(o.Targets[i]))) {
					t.Errorf("%d devices, stopped at step %d: other files of %s than on one", devices, stop, target.Text)
				}
			}
		}
	}
}

// A peer has memory of its own, and copies to others.
type peer struct {
	ownMemory
	copies *atomic.Int32
}

func (p peer) CopyTo(to device.Device, dst, src tensor.Tensor) bool {
	data := make([]byte, src.Bytes())
	p.Download(data, src)
	to.Upload(dst, data)
	p.copies.Add(1)
	return true
}

// What one device has of the source is copied to the others, and not read again.
func TestDevicesCopy(t *testing.T) {
	source, copies := sourceModel(t, "llama"), &atomic.Int32{}
	var counters []*devtest.Counter
	devices := func(n int) (list []device.Quantize) {
		for range n {
			counters = append(counters, devtest.Counting(openCPU(t)))
			list = append(list, peer{ownMemory{counters[len(counters)-1], 1 << 40}, copies})
		}
		return list
	}
	var want map[string]string
	for _, n := range []int{1, 3} {
		o := options(t, source, "4.0")
		o.conditions.together, o.conditions.product = 128, 32
		if _, err := runOn(context.Background(), devices(n), o, &watcher{}); err != nil {
			t.Fatal(err)
		}
		got := contents(t, o.folder(o.Targets[0]))
		if want == nil {
			want = got
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d devices: other files than on one", n)
		}
	}
	s, err := openSource(options(t, source, "4.0"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	matrices := 1 // the embedding
	for _, m := range s.loader.Layout {
		matrices += len(m.Linears)
	}
	if n := int(copies.Load()); n != 2*matrices {
		t.Errorf("%d matrices copied, want %d to each of two", n, matrices)
	}
	for _, c := range counters {
		if live := c.Live(); len(live) > 0 || c.Faults() != nil {
			t.Errorf("not freed: %q; %v", live, c.Faults())
		}
	}
}

// A CPU of many cores has as many workers as there is room for, and one at least.
func TestRoomForWorkers(t *testing.T) {
	source, data := sourceModel(t, "llama"), tokenFile(t)
	asked := func(limit func(c *conditions)) *Options {
		o := options(t, source, "4.0")
		o.Data.File, o.conditions.inMemory = data, 0 // hidden states of every worker are files
		limit(o.conditions)
		return o
	}
	opened := func(limit func(c *conditions)) *run {
		r, err := open(context.Background(), someCPUs(t, 1), asked(limit), &watcher{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.close)
		return r
	}
	memory := func(n int) func(c *conditions) {
		return func(c *conditions) { c.freeMemory = func() (int, bool) { return n, true } }
	}
	disk := func(n int) func(c *conditions) {
		return func(c *conditions) { c.disk = func(string) (machine.Disk, bool) { return machine.Disk{Free: n}, true } }
	}
	withCores(coresOfWorker*workersOfCPU, func() {
		r := opened(memory(math.MaxInt))
		for workers := workersOfCPU; workers > 0; workers-- {
			r.spared = workersOfCPU - workers
			e := r.estimate()
			for name, limit := range map[string]func(c *conditions){"memory": memory(e.Memory), "disk": disk(e.Work + e.Models)} {
				if n := len(opened(limit).places()); n != workers {
					t.Errorf("%s for %d workers: there are %d", name, workers, n)
				}
			}
		}
		e := r.estimate()
		mustRefuse(t, asked(memory(e.Memory-1)), "of memory")
		mustRefuse(t, asked(disk(e.Work+e.Models-1)), "on disk")
	})
}
