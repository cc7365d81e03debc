package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"exl2/internal/device"
	"exl2/internal/machine"
	"exl2/internal/tensor"
)

func closing(t testing.TB, d *Device) *Device {
	t.Cleanup(func() { d.Close() })
	return d
}

func download(d *Device, t tensor.Tensor) []byte {
	out := make([]byte, t.Bytes())
	d.Download(out, t)
	return out
}

func TestOutOfMemory(t *testing.T) {
	d := closing(t, openGPU(t))
	d.Remedy = "lower --context"
	x := d.Alloc(tensor.F16, 1<<20, 1<<22)
	want := regexp.MustCompile(`^cuda: out of memory: F16 1048576x4194304 takes 8796\.1 GB, [\d.]+ [MG]B of [\d.]+ GB are free on .+; lower --context$`)
	if err := d.Sync(); err == nil || !want.MatchString(err.Error()) {
		t.Errorf("%v, want %v", err, want)
	}
	d.Upload(x.Slice(0, 1), make([]byte, 2<<22)) // does nothing
	d.Free(x)
}

func TestMemoryComesBack(t *testing.T) {
	d := closing(t, openGPU(t))
	const n = 256 << 20
	before, total := d.MemInfo()
	x := d.Alloc(tensor.U8, 1, n)
	during, _ := d.MemInfo()
	d.Free(x)
	after, _ := d.MemInfo()
	const slack = 64 << 20 // what the driver keeps to itself
	if before > total || during > before-n || after < before-slack {
		t.Errorf("free: %d before, %d during, %d after an allocation of %d; %d in all", before, during, after, n, total)
	}
}

// Page-locked memory of the host is copied to and from in the order of operations.
func TestHostMemory(t *testing.T) {
	d := closing(t, openGPU(t))
	const rows, cols = 5, 1 << 18
	host, ok := d.AllocHost(tensor.F32, rows, cols)
	if !ok {
		t.Fatal("no page-locked memory")
	}
	if !bytes.Equal(download(d, host), make([]byte, host.Bytes())) {
		t.Error("it does not begin as zeros")
	}
	data := bytes.Repeat([]byte{0, 0, 128, 63, 0, 0, 0, 64}, rows*cols/2) // 1, 2, 1, 2 ...
	d.Upload(host, data)
	x := d.Alloc(tensor.F32, rows, cols)
	d.Copy(x, host)
	d.AddScaled(x, x, 1)
	d.Copy(host.Slice(1, 2), x.Slice(3, 4))
	d.Clear(x)
	d.Copy(x.Slice(0, 2), host.Slice(0, 2))
	got, want := download(d, x), append(append(bytes.Clone(data[:4*cols]), bytes.Repeat([]byte{0, 0, 0, 64, 0, 0, 128, 64}, cols/2)...), make([]byte, 3*4*cols)...)
	if err := d.Sync(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other numbers come back; error %v", err)
	}
	d.Free(host)
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// Copies beside the work begin and end in the order that marks say.
func TestCarry(t *testing.T) {
	d := closing(t, openGPU(t))
	const n, rounds = 1 << 22, 20
	host, _ := d.AllocHost(tensor.F32, 1, n)
	x, one := d.Alloc(tensor.F32, 1, n), d.Alloc(tensor.F32, 1, n)
	d.Upload(one, bytes.Repeat([]byte{0, 0, 128, 63}, n))
	arrived, over, home := d.NewMark(), d.NewMark(), d.NewMark()
	d.Await(home) // nothing has set it
	for range rounds {
		d.Carry(x, host, arrived, home, over)
		d.Await(arrived)
		for range 10 {
			d.AddScaled(x, one, 0.1)
		}
		d.Set(over)
		d.Carry(host, x, home, over)
	}
	d.Await(home)
	got := make([]float32, n)
	d.Download(tensor.BytesOf(got), host)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if !(v > rounds*0.999 && v < rounds*1.001) {
			t.Fatalf("element %d is %v, want about %d", i, v, rounds)
		}
	}
	d.Carry(x, host, arrived) // Close waits for what is under way
}

// What must not happen while recording panics, and leaves the device usable.
func TestNotWhileRecording(t *testing.T) {
	d := closing(t, openGPU(t))
	x := d.Alloc(tensor.F32, 1, 8)
	data := make([]byte, x.Bytes())
	for name, call := range map[string]func(){
		"Alloc": func() { d.Alloc(tensor.F32, 1, 1) }, "Free": func() { d.Free(x) }, "Upload": func() { d.Upload(x, data) },
		"Download": func() { d.Download(data, x) }, "Sync": func() { d.Sync() }, "Record": func() { d.Record(func() {}) },
	} {
		message := func() (message any) {
			defer func() { message = recover() }()
			d.Record(func() {
				if d.recording {
					call()
				}
			})
			return nil
		}()
		if want := "cuda: " + name + " while recording"; !strings.HasPrefix(fmt.Sprint(message), want) {
			t.Errorf("%s: %v, want %s", name, message, want)
		}
	}
	replay, err := d.Record(func() { d.AddScaled(x, x, 1) })
	if err != nil {
		t.Fatal(err)
	}
	replay()
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// Programmatic dependent launches see what those before them have written.
func TestDependentLaunches(t *testing.T) {
	d := closing(t, openGPU(t))
	const n, steps = 100_000, 300
	x, half, pos := d.Alloc(tensor.F32, 1, n), d.Alloc(tensor.F16, 1, n), d.Alloc(tensor.I32, 1, 1)
	one := d.Alloc(tensor.F32, 1, n)
	d.Upload(one, bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, n))
	replay, err := d.Record(func() {
		for range steps {
			d.AddScaled(x, one, 1)
			d.Copy(half, x)
			d.Advance(pos)
			d.Copy(x, half)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	replay()
	want := bytes.Repeat([]byte{0, 0, 0x16, 0x44}, n) // 600
	if !bytes.Equal(download(d, x), want) || binary.LittleEndian.Uint32(download(d, pos)) != 2*steps {
		t.Error("kernels have overtaken each other")
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// A device may be used from any thread.
func TestThreads(t *testing.T) {
	d := closing(t, openGPU(t))
	pos := d.Alloc(tensor.I32, 1, 1)
	for range 8 {
		var wait sync.WaitGroup
		wait.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			d.Advance(pos)
			d.Free(d.Alloc(tensor.F32, 1, 1))
		})
		wait.Wait()
	}
	if got := binary.LittleEndian.Uint32(download(d, pos)); got != 8 {
		t.Errorf("%d advances of 8", got)
	}
}

// Two devices copy to each other, whether they are one GPU, two that reach each
// other, or two that do not.
func TestCopyPeer(t *testing.T) {
	a := closing(t, openGPU(t))
	n, err := Count()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(n - 1)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, b)
	const rows, cols = 500, 1001
	x, y, z := a.Alloc(tensor.I32, rows, cols), b.Alloc(tensor.I32, rows, cols), a.Alloc(tensor.I32, rows, cols)
	back := func(d *Device, dst tensor.Tensor, to *Device, src tensor.Tensor) { d.copyThroughHost(dst, to, src) }
	for name, copy := range map[string]func(d *Device, dst tensor.Tensor, to *Device, src tensor.Tensor){
		"as they can": func(d *Device, dst tensor.Tensor, to *Device, src tensor.Tensor) { d.CopyPeer(dst, to, src) }, "through the host": back,
	} {
		for step := range 10 {
			a.Upload(x, bytes.Repeat([]byte{byte(step), 0, 0, 0}, rows*cols))
			for range 5 {
				a.Advance(x)
			}
			copy(a, y, b, x)
			b.Advance(y)
			copy(b, z, a, y)
			a.Advance(z)
			if got := download(a, z); !bytes.Equal(got, bytes.Repeat([]byte{byte(step + 7), 0, 0, 0}, rows*cols)) {
				t.Fatalf("%s: step %d gives %v", name, step, got[:8])
			}
		}
	}
	if err := errors.Join(a.Sync(), b.Sync()); err != nil {
		t.Error(err)
	}
}

// GPUs that come later compile the PTX.
func TestPTX(t *testing.T) {
	d := closing(t, openGPU(t))
	d.target = "compute_80"
	start := time.Now()
	for k := range kernel(kernelCount) {
		d.function(k)
	}
	x := d.Alloc(tensor.I32, 1, 1)
	d.Advance(x)
	if got := download(d, x)[0]; got != 1 {
		t.Errorf("0 + 1 = %d", got)
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
	t.Logf("%d kernels compiled from PTX, or found in the driver's cache, in %v", kernelCount, time.Since(start))
}

// Every kernel loads, memory is counted, and its bandwidth is that of a GPU. The
// numbers are printed for the documents.
func TestLoads(t *testing.T) {
	start := time.Now()
	d := closing(t, openGPU(t))
	opened := time.Since(start)
	start = time.Now()
	for k := range kernel(kernelCount) {
		d.function(k)
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	free, total := d.MemInfo()
	if free <= 0 || free > total {
		t.Errorf("%d of %d bytes are free", free, total)
	}
	t.Logf("%s, images %s; opened in %v, %d kernels loaded in %v; %s of %s free", d.Name(), d.target, opened, kernelCount, time.Since(start), machine.Size(free), machine.Size(total))
	bandwidth := d.Bandwidth()
	if bandwidth < 1e9 || bandwidth > 100e12 { // slower than a disk, faster than any GPU
		t.Errorf("bandwidth %v", bandwidth)
	}
	t.Logf("memory moves %.0f GB/s", bandwidth/1e9)
}

// A kernel that goes astray is named. It takes the whole process's use of the
// GPU with it, so it does so in a process of its own.
func TestCrash(t *testing.T) {
	const variable = "EXL2_TEST_CRASH"
	d := openGPU(t)
	if os.Getenv(variable) != "" {
		const nowhere = 16
		d.read(launch{blocks: dim{x: 1}, threads: dim{x: 32}}, nowhere, nowhere, 1000)
		fmt.Println(d.Sync())
		os.Exit(0)
	}
	closing(t, d)
	crash := exec.Command(os.Args[0], "-test.run=^TestCrash$")
	crash.Env = append(os.Environ(), variable+"=1")
	out, err := crash.CombinedOutput()
	if want := "cuda: launch of read: an illegal memory access was encountered\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}

// The time of a small operation: launched, and recorded in a graph.
func BenchmarkLaunch(b *testing.B) {
	d := closing(b, openGPU(b))
	x, act := d.Alloc(tensor.F32, 1, 4096), d.Alloc(tensor.F16, 1, 4096)
	w := d.Alloc(tensor.F32, 1, 4096)
	const ops = 100
	run := func() {
		for range ops / 2 {
			d.AddScaled(x, act, 1)
			d.Norm(act, x, w, tensor.Tensor{}, device.Norm{Eps: 1e-5})
		}
	}
	replay, err := d.Record(run)
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func(){"launched": run, "recorded": replay} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
			issued := b.Elapsed()
			d.Sync()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*ops), "ns/op-done")
			b.ReportMetric(float64(issued.Nanoseconds())/float64(b.N*ops), "ns/op-issued")
		})
	}
}
