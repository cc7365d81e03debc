package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"exl2/internal/tensor"
)

// A kernel is an entry point of the embedded device code.
type kernel uint16

// launch says how a kernel is launched.
type launch struct {
	blocks, threads dim
	shared          int // bytes of dynamic shared memory
	cluster         int // blocks of a cluster, in the direction of x; 0 is none

	// beside says that blocks of the next kernel are to find room beside these: the
	// memory of a multiprocessor is to be shared memory, as far as it can be.
	beside bool

	// behind says that the kernel reads what the one before writes before it waits for that, and so
	// must not start while that one runs.
	behind bool
}

// dim is a number of blocks or threads in each direction; 0 in y and z is 1.
type dim struct{ x, y, z int }

// argumentBytes is more than any kernel's parameters take.
const argumentBytes = 1024

// arguments is the parameters of a launch, packed as C packs a struct. There is
// one for each device, which the driver reads before the launch returns.
type arguments struct {
	kernel kernel
	device *Device
	buf    [argumentBytes]byte
	size   uintptr
	extra  [5]uintptr
	whole  bool       // they are one struct, whose place the driver knows: it may not be at 0
	list   [1]uintptr // of that one
}

// link makes the list by which the driver finds the buffer.
func (a *arguments) link() {
	const bufferPointer, bufferSize, end = 1, 2, 0 // CU_LAUNCH_PARAM_...
	a.extra = [...]uintptr{bufferPointer, uintptr(unsafe.Pointer(&a.buf)), bufferSize, uintptr(unsafe.Pointer(&a.size)), end}
	a.list[0] = uintptr(unsafe.Pointer(&a.buf))
}

// driver returns the arguments as the driver takes them: a list, and else the buffer.
func (a *arguments) driver() (list, extra uintptr) {
	if a.whole {
		return uintptr(unsafe.Pointer(&a.list)), 0
	}
	return 0, uintptr(unsafe.Pointer(&a.extra))
}

// begin starts the arguments of a launch.
func (d *Device) begin(k kernel) *arguments {
	if k != kernel_qmatmul_one_joined {
		d.settle()
	}
	d.args.kernel, d.args.device, d.args.size, d.args.whole = k, d, 0, false
	return &d.args
}

// next returns the place of the next parameter, aligned to its size.
func (a *arguments) next(size uintptr) []byte {
	a.whole = false
	at := (a.size + size - 1) &^ (size - 1)
	a.size = at + size
	return a.buf[at:a.size]
}

func (a *arguments) uint32(v uint32)   { binary.LittleEndian.PutUint32(a.next(4), v) }
func (a *arguments) int32(v int32)     { a.uint32(uint32(v)) }
func (a *arguments) float32(v float32) { a.uint32(math.Float32bits(v)) }
func (a *arguments) uint64(v uint64)   { binary.LittleEndian.PutUint64(a.next(8), v) }
func (a *arguments) int64(v int64)     { a.uint64(uint64(v)) }
func (a *arguments) pointer(v pointer) { a.uint64(uint64(v)) }

// bytes adds a struct, aligned to eight, or to what it likes if nothing is beside it.
func (a *arguments) bytes(v []byte) {
	a.whole = a.size == 0
	a.size = (a.size + 7) &^ 7
	copy(a.buf[a.size:], v)
	a.size += uintptr(len(v))
}

// tensor adds the address of a tensor, null for an absent one.
func (a *arguments) tensor(t tensor.Tensor, want tensor.Type, name string) {
	if t.Nil() {
		a.uint64(0)
		return
	}
	op := kernels[a.kernel].name
	if t.Type != want {
		panic(fmt.Sprintf("cuda: %s: %s is %v, want %v", op, name, t, want))
	}
	a.uint64(uint64(a.device.address(op, t)))
}

// launch launches a kernel; no blocks are nothing to do.
func (d *Device) launch(a *arguments, l launch) {
	if l.blocks.x == 0 || d.err != nil {
		return
	}
	name := kernels[a.kernel].name
	f := d.function(a.kernel)
	if d.err != nil || !d.allow(f, name, l.shared) || l.beside && !d.makeRoom(f, name) {
		return
	}
	d.tapeLaunch(a, l)
	dependent := kernels[a.kernel].dependent && d.major >= 9 && !l.behind
	if l.cluster > 0 && !dependent { // which only such a launch can ask for
		d.failWith("launch of %s: in clusters of %d, but it does not wait by itself for the kernel before it", name, l.cluster)
		return
	}
	r := d.issue(f, l, dependent)
	if r == outOfMemory && d.takeBack() {
		r = d.issue(f, l, dependent)
	}
	d.trail.add(name)
	if r != success {
		d.fail("launch of "+name, r)
	}
}

// issue launches a kernel. One that waits by itself for the one before it
// (kernels/order.cuh) may start while that one finishes, where the GPU can do so.
func (d *Device) issue(f *function, l launch, dependent bool) result {
	if dependent {
		return d.launchDependent(f, l)
	}
	return d.launchPlain(f, l)
}

func (d *Device) launchPlain(f *function, l launch) result {
	b, t := l.blocks, l.threads
	list, extra := d.args.driver()
	d.argv = [...]uintptr{
		f.handle, uintptr(b.x), uintptr(max(b.y, 1)), uintptr(max(b.z, 1)), uintptr(t.x), uintptr(max(t.y, 1)), uintptr(max(t.z, 1)),
		uintptr(l.shared), d.stream, list, extra,
	}
	return d.try(cuLaunchKernel, d.argv[:]...)
}

// launchConfig is a CUlaunchConfig and its attributes.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      uintptr
	attributes  unsafe.Pointer
	count       uint32
	attribute   [2]struct {
		id    uint32
		value [8]uint64 // a union of 64 bytes
	}
}

// launchDependent is launchPlain as a programmatic dependent launch, perhaps in
// clusters.
func (d *Device) launchDependent(f *function, l launch) result {
	c := d.configure(l)
	list, extra := d.args.driver()
	d.argv = [11]uintptr{uintptr(unsafe.Pointer(c)), f.handle, list, extra}
	return d.try(cuLaunchKernelEx, d.argv[:4]...)
}

// configure describes l as a programmatic dependent launch.
func (d *Device) configure(l launch) *launchConfig {
	const clusterDimension, programmaticSerialization = 4, 6
	c, b, t := &d.config, l.blocks, l.threads
	c.grid = [3]uint32{uint32(b.x), uint32(max(b.y, 1)), uint32(max(b.z, 1))}
	c.block = [3]uint32{uint32(t.x), uint32(max(t.y, 1)), uint32(max(t.z, 1))}
	c.shared, c.stream = uint32(l.shared), d.stream
	c.attribute[0].id, c.attribute[0].value[0] = programmaticSerialization, 1
	c.attributes, c.count = unsafe.Pointer(&c.attribute), 1
	if l.cluster > 0 {
		a := &c.attribute[1]
		a.id, a.value[0], a.value[1] = clusterDimension, uint64(l.cluster)|1<<32, 1 // x, y and z in 32 bits each
		c.count = 2
	}
	return c
}

// pieces returns in how many pieces of the given size n is cut.
func pieces(n, size int) int { return (n + size - 1) / size }

// powerFrom returns the least power of two that is at least n, which is positive.
func powerFrom(n int) int { return 1 << bits.Len(uint(n-1)) }

// flag is a condition as kernels take it.
func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// A plane is rows of tensors of one shape that an elementwise kernel takes: all
// elements as one row, if there are no gaps.
type plane struct{ rows, cols int }

func planeOf(ts ...tensor.Tensor) plane {
	p := plane{ts[0].Rows, ts[0].Cols}
	for _, t := range ts {
		if !t.Dense() {
			return p
		}
	}
	return plane{min(p.rows, 1), p.rows * p.cols}
}

// launch returns the launch of a kernel whose threads take some elements each.
func (p plane) launch() launch {
	const threads, most = 128, 1<<16 - 1
	if p.rows == 0 {
		return launch{}
	}
	return launch{blocks: dim{x: pieces(p.cols, half_elements*threads), y: min(p.rows, most)}, threads: dim{x: threads}}
}

// byRow returns the launch of a kernel with a block for each row, whose threads
// take eight of the row's elements at a time: as many threads as find work, in
// whole warps up to most.
func byRow(rows, cols, most int) launch {
	threads := min((cols+255)/256*32, most)
	return launch{blocks: dim{x: rows}, threads: dim{x: max(threads, 32)}}
}
