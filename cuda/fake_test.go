package cuda

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// fake is a driver that does nothing but hand out addresses, and fails where a
// test wants it to, or where a kernel is to have more shared memory than there is.
type fake struct {
	fails   map[symbol]result
	attr    map[uintptr]int32
	version int32
	own     int32 // bytes of shared memory that kernels declare
	next    uintptr
	apart   bool // addresses are as far apart as what is allocated is large
	calls   map[symbol]int
	launch  []byte         // arguments of the last launch
	called  func(s symbol) // at every call; may be nil
}

func newFake() *fake {
	return &fake{fails: map[symbol]result{}, attr: map[uintptr]int32{attributeSMs: 4, attributeMajor: 8, attributeMinor: 6},
		version: 12040, next: 1 << 20, calls: map[symbol]int{}}
}

func (f *fake) driver() *driver { return &driver{invoke: f.invoke} }

// launched has call called with the name of each kernel that d, which is of the fake, launches.
func (f *fake) launched(d *Device, call func(name string)) {
	f.called = func(s symbol) {
		if s == cuLaunchKernel || s == cuLaunchKernelEx {
			call(kernels[d.args.kernel].name)
		}
	}
}

// open opens the fake's GPU.
func (f *fake) open(t *testing.T) *Device {
	t.Helper()
	d, err := f.driver().open(0)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var messages = map[result]string{1: "invalid argument", 2: "out of memory", 700: "an illegal memory access was encountered", 999: "unknown error"}

func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

func (f *fake) invoke(s symbol, args []uintptr) result {
	f.calls[s]++
	if f.called != nil {
		f.called(s)
	}
	if r := f.fails[s]; r != success {
		return r
	}
	switch s {
	case cuDriverGetVersion:
		*at[int32](args[0]) = f.version
	case cuDeviceGet:
		*at[int32](args[0]) = int32(args[1])
	case cuGetErrorString:
		text := append([]byte(messages[result(args[0])]), 0)
		*at[unsafe.Pointer](args[1]) = unsafe.Pointer(&text[0])
	case cuDeviceGetCount:
		*at[int32](args[0]) = 1
	case cuDeviceGetName:
		copy(at[[256]byte](args[0])[:], "Fake GPU\x00")
	case cuDeviceGetAttribute:
		*at[int32](args[0]) = f.attr[args[1]]
	case cuFuncGetAttribute:
		*at[int32](args[0]) = f.own
	case cuFuncSetAttribute:
		if all := f.attr[attributeSharedOptIn]; args[1] == 8 && all > 0 && int32(args[2])+f.own > all {
			return 1
		}
	case cuDeviceCanAccessPeer:
		*at[int32](args[0]) = 1
	case cuMemGetInfo:
		*at[int](args[0]), *at[int](args[1]) = 2_000_000, 16_000_000_000
	case cuMemHostAlloc:
		block := make([]byte, args[1])
		*at[unsafe.Pointer](args[0]) = unsafe.Pointer(&block[0])
	case cuMemAlloc, cuMemAllocAsync:
		f.next += 1 << 12
		*at[uintptr](args[0]) = f.next
		if f.apart {
			f.next += args[1]
		}
	case cuDevicePrimaryCtxRetain, cuStreamCreate, cuEventCreate, cuModuleLoadData, cuModuleGetFunction, cuGraphInstantiate:
		f.next += 1 << 12
		*at[uintptr](args[0]) = f.next
	case cuStreamEndCapture:
		f.next += 1 << 12
		*at[uintptr](args[1]) = f.next
	case cuLaunchKernel:
		if args[10] == 0 { // one struct, whose size only the kernel knows
			break
		}
		extra := at[[5]uintptr](args[10])
		f.launch = append(f.launch[:0], unsafe.Slice(at[byte](extra[1]), *at[uintptr](extra[3]))...)
	}
	return success
}

func TestNoDevice(t *testing.T) {
	for _, c := range []struct {
		name   string
		break_ func(f *fake)
		want   string
	}{
		{"no GPU", func(f *fake) { f.fails[cuInit] = noDevice }, "no usable GPU: the NVIDIA driver finds none"},
		{"broken", func(f *fake) { f.fails[cuInit] = 999 }, "no usable GPU: the NVIDIA driver does not start: unknown error"},
		{"old driver", func(f *fake) { f.version = 11080 }, "no usable GPU: the NVIDIA driver is for CUDA 11.8, want one for 12.0 (525) or later"},
		{"old GPU", func(f *fake) { f.attr[attributeMajor], f.attr[attributeMinor] = 6, 1 },
			"cuda: GPU 0: no usable GPU: Fake GPU has compute capability 6.1, kernels need 7.5 or higher"},
		{"new GPU, old driver", func(f *fake) { f.attr[attributeMajor], f.attr[attributeMinor] = 12, 0 },
			"cuda: GPU 0: no usable GPU: Fake GPU needs an NVIDIA driver for CUDA 12.8 (570) or later, this one is for 12.4"},
	} {
		f := newFake()
		c.break_(f)
		err := f.driver().start()
		if err == nil {
			_, err = f.driver().open(0)
		}
		if !errors.Is(err, ErrNoDevice) || err.Error() != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := loadDriver("libno-such-driver.so.1"); !errors.Is(err, ErrNoDevice) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "driver is not installed") {
		t.Errorf("no library: %v", err)
	}
}

// A failure names the operation, or the kernels that may have caused it, and
// stays the only one.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(f *fake, d *Device, x tensor.Tensor)
		want string
	}{
		{"of a call", func(f *fake, d *Device, x tensor.Tensor) { f.fails[cuMemcpyDtoDAsync] = 1; d.Copy(x, x) }, "cuda: Copy: invalid argument"},
		{"of a launch", func(f *fake, d *Device, x tensor.Tensor) { f.fails[cuLaunchKernel] = 1; d.Cap(x, 1, 1) }, "cuda: launch of cap_f32: invalid argument"},
		{"of a kernel", func(f *fake, d *Device, x tensor.Tensor) {
			d.Cap(x, 1, 1)
			d.Cap(x, 1, 1)
			f.fails[cuStreamSynchronize] = 700
			d.Sync()
		}, "cuda: launch of cap_f32: an illegal memory access was encountered"},
		{"of one of several kernels", func(f *fake, d *Device, x tensor.Tensor) {
			d.Cap(x, 1, 1)
			d.AddScaled(x, x, 1)
			f.fails[cuMemcpyHtoDAsync] = 700
			d.Upload(x, make([]byte, x.Bytes()))
		}, "cuda: launch of one of cap_f32, add_scaled_f32 (CUDA_LAUNCH_BLOCKING=1 tells which): an illegal memory access was encountered"},
		{"of a kernel in a recording", func(f *fake, d *Device, x tensor.Tensor) {
			replay, _ := d.Record(func() { d.Cap(x, 1, 1) })
			d.Sync()
			replay()
			f.fails[cuStreamSynchronize] = 700
			d.Sync()
		}, "cuda: launch of cap_f32: an illegal memory access was encountered"},
		{"of a recording", func(f *fake, d *Device, x tensor.Tensor) {
			f.fails[cuStreamEndCapture] = 1
			d.Record(func() { d.Cap(x, 1, 1) })
		}, "cuda: Record: invalid argument"},
		{"of an allocation", func(f *fake, d *Device, x tensor.Tensor) {
			f.fails[cuMemAlloc], d.Remedy = outOfMemory, "lower --context"
			d.Alloc(tensor.F16, 1000, 3000)
		}, "cuda: out of memory: F16 1000x3000 takes 6.0 MB, 2.0 MB of 16.0 GB are free on Fake GPU; lower --context"},
	} {
		f := newFake()
		d := f.open(t)
		x := d.Alloc(tensor.F32, 1, 8)
		c.do(f, d, x)
		clear(f.fails)
		calls := f.calls[cuLaunchKernel]
		d.Cap(x, 1, 1)
		if f.calls[cuLaunchKernel] != calls {
			t.Errorf("%s: later operations are not left out", c.name)
		}
		if err := d.Sync(); err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
		d.Close()
	}
}

// Everything that is made is destroyed.
func TestClose(t *testing.T) {
	f := newFake()
	d := f.open(t)
	x := d.Alloc(tensor.F32, 1, 8)
	d.Free(d.Alloc(tensor.F32, 1, 8))
	for range 2 { // one is freed, one is left
		x, _ = d.AllocHost(tensor.F32, 1, 8)
	}
	d.Free(x)
	x = d.Alloc(tensor.F32, 1, 8)
	if _, err := d.Record(func() { d.Cap(x, 1, 1) }); err != nil {
		t.Fatal(err)
	}
	d.Close()
	d.Close() // does nothing
	for _, p := range []struct{ made, destroyed symbol }{
		{cuMemAlloc, cuMemFree}, {cuMemHostAlloc, cuMemFreeHost}, {cuStreamCreate, cuStreamDestroy}, {cuEventCreate, cuEventDestroy},
		{cuModuleLoadData, cuModuleUnload}, {cuStreamEndCapture, cuGraphDestroy}, {cuGraphInstantiate, cuGraphExecDestroy},
		{cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease},
	} {
		if f.calls[p.made] == 0 || f.calls[p.made] != f.calls[p.destroyed] {
			t.Errorf("%d calls of %s, %d of %s", f.calls[p.made], exported[p.made], f.calls[p.destroyed], exported[p.destroyed])
		}
	}
	d.Cap(x, 1, 1)
	if err := d.Sync(); err == nil || err.Error() != "cuda: Fake GPU is closed" {
		t.Error(err)
	}
}

// Where the host has no memory to lock, that is no failure.
func TestNoHostMemory(t *testing.T) {
	f := newFake()
	d := f.open(t)
	f.fails[cuMemHostAlloc] = outOfMemory
	if _, ok := d.AllocHost(tensor.F32, 1, 8); ok || d.Sync() != nil {
		t.Errorf("%v, error %v", ok, d.Sync())
	}
}

// Misuse of memory panics.
func TestForeignMemory(t *testing.T) {
	d, other := newFake().open(t), newFake().open(t)
	freed := d.Alloc(tensor.F32, 1, 8)
	d.Free(freed)
	for _, c := range []struct {
		want string
		call func()
	}{
		{"cuda: cap_f32: F32 1x8 is not in this device's memory", func() { d.Cap(other.Alloc(tensor.F32, 1, 8), 1, 1) }},
		{"cuda: cap_f32: F32 1x8 is freed", func() { d.Cap(freed, 1, 1) }},
		{"cuda: Free: F32 1x8 is freed", func() { d.Free(freed) }},
		{"cuda: cap_f32: x is F16 1x8, want F32", func() { d.Cap(d.Alloc(tensor.F16, 1, 8), 1, 1) }},
		{"cuda: Upload: F32 1x8 at byte 4 of 32", func() {
			x := d.Alloc(tensor.F32, 1, 8)
			x.Off = 4
			d.Upload(x, make([]byte, 32))
		}},
		{"cuda: Norm: no kernel for [F16 1x8 BF16 1x8]", func() {
			w := d.Alloc(tensor.F32, 1, 8)
			d.Norm(d.Alloc(tensor.F16, 1, 8), d.Alloc(tensor.BF16, 1, 8), w, tensor.Tensor{}, device.Norm{})
		}},
	} {
		got := func() (message any) {
			defer func() { message = recover() }()
			c.call()
			return nil
		}()
		if got != c.want {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
}

// A launch's arguments lie as C would lay them out, and cost no garbage.
func TestArguments(t *testing.T) {
	f := newFake()
	d := f.open(t)
	a := d.begin(0)
	a.int32(-2)
	a.int64(-3)
	a.float32(1.5)
	a.pointer(0x1122334455667788)
	a.uint32(7)
	want := []byte{0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 7, 0, 0, 0}
	d.launch(a, launch{blocks: dim{x: 1}, threads: dim{x: 1}})
	if string(f.launch) != string(want) {
		t.Errorf("% x\nwant % x", f.launch, want)
	}
}

// Operations leave no garbage behind, whichever way they are launched.
func TestGarbage(t *testing.T) {
	for _, major := range []int32{8, 9} {
		f := newFake()
		f.attr[attributeMajor], f.attr[attributeMinor] = major, 0
		d := f.open(t)
		x, y, w := d.Alloc(tensor.F32, 1, 64), d.Alloc(tensor.F16, 1, 64), d.Alloc(tensor.F32, 1, 64)
		b := device.Batch{Pos: d.Alloc(tensor.I32, 1, 1), Seq: d.Alloc(tensor.I32, 1, 1), Span: 1}
		for name, call := range map[string]func(){
			"Norm": func() { d.Norm(y, x, w, tensor.Tensor{}, device.Norm{Eps: 1e-5}) }, "AddScaled": func() { d.AddScaled(x, y, 1) },
			"ActMul": func() { d.ActMul(y, y, y, device.SiLU) }, "Copy": func() { d.Copy(y, x) },
			"Rope": func() { d.Rope(y, y, w.Reshape(1, 32), 64, device.Rope{Dims: 64}, b) },
		} {
			if n := testing.AllocsPerRun(100, call); n != 0 {
				t.Errorf("%s, compute capability %d: %v allocations a call", name, major, n)
			}
		}
		if err := d.Sync(); err != nil {
			t.Error(err)
		}
	}
}

// Shared memory over 48 KB is asked for, once for each larger amount, with what a kernel
// declares itself.
func TestSharedMemory(t *testing.T) {
	f := newFake()
	f.own = 16 << 10
	d := f.open(t)
	for _, c := range []struct{ shared, calls int }{{32 << 10, 0}, {40 << 10, 1}, {36 << 10, 1}, {96 << 10, 2}} {
		d.launch(d.begin(0), launch{blocks: dim{x: 1}, threads: dim{x: 1}, shared: c.shared})
		if f.calls[cuFuncSetAttribute] != c.calls {
			t.Errorf("%d bytes: %d calls, want %d", c.shared, f.calls[cuFuncSetAttribute], c.calls)
		}
	}
}

// Only GPUs that can do so have programmatic dependent launches: not those either that have no
// code of their own, as that of kernels for all does not wait for the kernel in front.
func TestDependentLaunch(t *testing.T) {
	for major, want := range map[int32]symbol{8: cuLaunchKernel, 9: cuLaunchKernelEx, 11: cuLaunchKernel, 12: cuLaunchKernelEx, 13: cuLaunchKernel} {
		f := newFake()
		f.version = oldestBlackwell
		f.attr[attributeMajor], f.attr[attributeMinor] = major, 0
		d := f.open(t)
		d.Cap(d.Alloc(tensor.F32, 1, 8), 1, 1)
		if f.calls[want] != 1 || f.calls[cuLaunchKernel]+f.calls[cuLaunchKernelEx] != 1 {
			t.Errorf("compute capability %d.0: %d and %d launches", major, f.calls[cuLaunchKernel], f.calls[cuLaunchKernelEx])
		}
	}
}
