package cuda

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/ptx"
)

// An emulator is a driver whose GPU is the CPU: kernels run as PTX (internal/ptx), one after the other,
// when they are launched. Its memory is checked, and what is recorded is run again when it is launched.
type emulator struct {
	fake    *fake
	memory  ptx.Memory
	modules []*ptx.Module
	kernels []*ptx.Kernel
	tape    []func() error // of the recording that has begun
	taping  bool
	graphs  [][]func() error
	failed  error
}

func newEmulator(sms int32) *emulator {
	f := newFake()
	f.version = 13000
	// Code for all GPUs is what those get that have none of their own.
	f.attr = map[uintptr]int32{attributeSMs: sms, attributeMajor: 13, attributeMinor: 0, attributeSharedOptIn: 227 << 10}
	return &emulator{fake: f}
}

const failure = result(700)

// do runs something, or records it.
func (e *emulator) do(f func() error) result {
	if e.taping {
		e.tape = append(e.tape, f)
		return success
	}
	return e.run(f)
}

func (e *emulator) run(f func() error) result {
	if err := f(); err != nil {
		if e.failed == nil {
			e.failed = err
		}
		return failure
	}
	return success
}

func bytesAt(p uintptr, n int) []byte { return unsafe.Slice(at[byte](p), n) }

func (e *emulator) copy(to, from func() ([]byte, error)) result {
	return e.do(func() error {
		b, err := from()
		if err != nil {
			return err
		}
		a, err := to()
		copy(a, b)
		return err
	})
}

// where returns bytes of the GPU or, page-locked, of the host.
func (e *emulator) where(p, n uintptr) func() ([]byte, error) {
	if p >= ptx.First {
		return func() ([]byte, error) { return e.memory.Bytes(uint64(p), int(n)) }
	}
	return func() ([]byte, error) { return bytesAt(p, int(n)), nil }
}

func (e *emulator) invoke(s symbol, args []uintptr) result {
	switch s {
	case cuMemAlloc, cuMemAllocAsync:
		*at[uint64](args[0]) = e.memory.Alloc(int(args[1]))
	case cuMemHostAlloc:
		block := make([]byte, args[1])
		*at[unsafe.Pointer](args[0]) = unsafe.Pointer(&block[0])
		e.memory.Lend(uint64(uintptr(unsafe.Pointer(&block[0]))), block)
	case cuMemFree, cuMemFreeAsync:
		e.memory.Free(uint64(args[0]))
	case cuMemGetInfo:
		*at[int](args[0]), *at[int](args[1]) = 4_000_000_000, 4_000_000_000
	case cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync:
		return e.copy(e.where(args[0], args[2]), e.where(args[1], args[2]))
	case cuMemsetD8Async:
		to, v := e.where(args[0], args[2]), byte(args[1])
		return e.do(func() error {
			b, err := to()
			for i := range b {
				b[i] = v
			}
			return err
		})
	case cuModuleLoadData:
		m, err := ptx.Parse(textAt(at[byte](args[1])))
		if err != nil {
			return e.run(func() error { return err })
		}
		e.modules = append(e.modules, m)
		*at[uintptr](args[0]) = uintptr(len(e.modules))
	case cuModuleGetFunction:
		k, err := e.modules[args[1]-1].Kernel(textAt(at[byte](args[2])))
		if err != nil {
			return e.run(func() error { return err })
		}
		e.kernels = append(e.kernels, k)
		*at[uintptr](args[0]) = uintptr(len(e.kernels))
	case cuFuncGetAttribute:
		if args[2] == 0 || int(args[2]) > len(e.kernels) {
			*at[int32](args[0]) = 0
			break
		}
		*at[int32](args[0]) = int32(e.kernels[args[2]-1].Shared)
	case cuLaunchKernel:
		return e.launch(args)
	case cuStreamBeginCapture:
		e.taping, e.tape = true, nil
	case cuStreamEndCapture:
		e.taping = false
		e.graphs = append(e.graphs, e.tape)
		*at[uintptr](args[1]) = uintptr(len(e.graphs))
	case cuGraphInstantiate:
		*at[uintptr](args[0]) = args[1]
	case cuGraphLaunch:
		for _, f := range e.graphs[args[0]-1] {
			if r := e.run(f); r != success {
				return r
			}
		}
	case cuGraphDestroy, cuGraphExecDestroy, cuModuleUnload:
	case cuStreamSynchronize, cuEventSynchronize:
		if e.failed != nil {
			return failure
		}
	default:
		return e.fake.invoke(s, args)
	}
	return success
}

func (e *emulator) launch(args []uintptr) result {
	k := e.kernels[args[0]-1]
	l := ptx.Launch{Grid: [3]int{int(args[1]), int(args[2]), int(args[3])}, Threads: int(args[4]), Shared: int(args[7])}
	if args[5] != 1 || args[6] != 1 {
		return e.run(func() error { return fmt.Errorf("%s: threads of a block in more than one direction", k.Name) })
	}
	if args[10] != 0 {
		extra := at[[5]uintptr](args[10])
		l.Params = append(l.Params, bytesAt(extra[1], int(*at[uintptr](extra[3])))...)
	} else {
		l.Params = append(l.Params, bytesAt(*at[uintptr](args[9]), k.Params)...)
	}
	return e.do(func() error { return k.Run(&e.memory, l) })
}

// whole are the operations all of whose cases are emulated in a few seconds. Of the others it is one of some, unless
// EXL2_EMULATED=all says otherwise, which takes hours.
var whole = []string{"Memory", "Record", "Failure", "Panics", "Embed", "HeadNorm", "Cap", "AddScaled", "Advance", "Copy", "ActMul", "ActMul alone", "HeadGates", "XIELU", "ClampMul", "Clip", "Gather", "Combine", "Attend to latents",
	"HeadGatesBack", "XIELUBack", "ActMulBack", "ClampMulBack", "ClipBack", "CapBack", "RopeBack", "NormBack", "CombineBack"}

// oneOf says of how many cases one is emulated, by operation. What is not here is not emulated, as it takes long.
var oneOf = map[string]int{"Norm": 8, "Rope": 8, "Decode": 12, "QMatMul": 10, "Products": 40, "Products of many matrices": 4, "Products without a norm": 7, "Products activated": 6, "Normed sums of products": 11, "LinearAttention": 6, "ActMulFor": 7, "GatedDelta": 10, "Decode affine": 8, "QMatMul affine": 10, "MatMul": 30, "Choose": 6, "Route": 6, "GroupMul": 9, "MixExperts": 7, "Mixture": 9, "Mixture of odd rows": 4, "Mixture linked": 17}

// Kernels give on the CPU, as PTX, what the CPU's operations give. It is the code of GPUs that have none of their
// own: what Hopper has beside that is tested there alone.
func TestEmulated(t *testing.T) {
	all := os.Getenv("EXL2_EMULATED") == "all"
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	choose := func(operation string, i int) bool {
		return all || slices.Contains(whole, operation) || oneOf[operation] > 0 && i%oneOf[operation] == 0
	}
	devtest.RunSome(t, choose, openEmulator)
	devtest.RunBackwardSome(t, choose, openEmulator)
}

func openEmulator(t testing.TB) device.Device {
	e := newEmulator(2)
	d, err := (&driver{invoke: e.invoke}).open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if e.failed != nil {
			t.Log(e.failed)
		}
	})
	return d
}
