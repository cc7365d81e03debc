package cuda

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"exl2/cuda/kernelfile"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Device is one GPU. Its methods may be called by one goroutine at a time.
//
// A kernel that accesses memory that is not there ends the process's use of the
// GPU: devices that are opened later fail, too.
type Device struct {
	// Remedy is what running out of memory suggests, as "lower --context".
	Remedy string

	drv     *driver
	handle  uintptr    // CUdevice
	ctx     uintptr    // its primary context, which cuBLAS uses, too
	current [1]uintptr // ctx as an argument list
	stream  uintptr
	mark    uintptr // event for timing and for other devices to wait on
	name    string
	target  string    // the images that fit
	major   int       // of the compute capability
	sms     int       // streaming multiprocessors
	shared  int       // bytes of shared memory that a block may have
	events  []uintptr // for timing, that nobody uses
	closing []func()

	err         error
	recording   bool
	tape        *tape // of what is to be repeated, or nil
	live        map[*memory]bool
	pool        pool
	ring        ring
	tables      tables
	carrier     carrier
	fault       tensor.Tensor
	trail       trail
	modules     map[string]uintptr
	functions   [kernelCount]function
	args        arguments
	argv        [11]uintptr
	config      launchConfig
	atOnce      [9]int // clusters of qmatmul_rows, by their blocks; 0: not known
	scratches   [scratchUses]tensor.Tensor
	madeTiles   map[madeOf]tensor.Tensor // of what latents are multiplied to
	oneRow      tensor.Tensor            // see ones
	packed      joinProduct              // that was launched last
	rows        rowsProduct              // the same, of several rows
	batch       batchProduct             // the same, by clusters
	some        qgemmProduct             // the same, of more
	opened      opened                   // what the last gate of those has left
	left        leftGiven                // that attention was given last
	step        stepGiven                // that linear attention was given last
	mixed       mixed
	linked      stream               // what products of few rows know of the last stream
	fine        map[*matrix]struct{} // those with groups of one block
	unjoined    device.Sum           // of which both parts are left for a reader, which joins them (join.go), Y being what was given, F32; or nothing
	took        bool                 // the last products that normalized a stream found it left for them
	couldTake   bool                 // their norm is one that can be left out
	rowsInOrder tensor.Tensor        // what products of several rows have put in order, for those behind them that read the same, or absent
	ahead       lookahead
	kept        keeper
	turned      turned
	blas        cublas
	workLimit   int // bytes that quantizing may take at a time; 0: what is free
}

var (
	_ device.Device     = (*Device)(nil)
	_ device.Timer      = (*Device)(nil)
	_ device.Meter      = (*Device)(nil)
	_ device.MemoryInfo = (*Device)(nil)
	_ device.Carrier    = (*Device)(nil)
	_ device.Peer       = (*Device)(nil)
)

// Count returns the number of GPUs. Without any, the error is ErrNoDevice.
func Count() (int, error) {
	drv, err := libcuda()
	if err != nil {
		return 0, err
	}
	return drv.count()
}

// Open returns the GPU of the given number, in the driver's order, which
// CUDA_VISIBLE_DEVICES changes.
func Open(i int) (*Device, error) {
	drv, err := libcuda()
	if err != nil {
		return nil, err
	}
	n, err := drv.count()
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= n {
		return nil, fmt.Errorf("cuda: no GPU %d: there are %d, numbered from 0", i, n)
	}
	return drv.open(i)
}

// open makes a Device of GPU i, which exists.
func (drv *driver) open(i int) (*Device, error) {
	d := &Device{drv: drv, live: map[*memory]bool{}, modules: map[string]uintptr{}, fine: map[*matrix]struct{}{}}
	if err := d.identify(i); err != nil {
		return nil, err
	}
	d.prepare()
	if err := d.err; err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Attributes of a GPU, by their numbers in cuda.h.
const (
	attributeSMs   = 16
	attributeMajor = 75
	attributeMinor = 76

	attributeSharedOptIn = 97 // bytes of shared memory that a block may ask for
)

// identify finds GPU i and the kernels that run on it.
func (d *Device) identify(i int) error {
	var handle int32
	if r := d.drv.call(cuDeviceGet, uintptr(unsafe.Pointer(&handle)), uintptr(i)); r != success {
		return fmt.Errorf("cuda: GPU %d: %s", i, d.drv.describe(r))
	}
	d.handle = uintptr(handle)
	name := new([256]byte)
	d.drv.call(cuDeviceGetName, uintptr(unsafe.Pointer(name)), uintptr(len(name)), d.handle)
	d.name, _, _ = strings.Cut(string(name[:]), "\x00")
	d.major, d.sms = d.attribute(attributeMajor), d.attribute(attributeSMs)
	d.shared = d.attribute(attributeSharedOptIn)
	minor := d.attribute(attributeMinor)
	var ok bool
	if d.target, ok = targetFor(kernelfile.Targets, d.major, minor); !ok {
		return fmt.Errorf("cuda: GPU %d: %w: %s has compute capability %d.%d, kernels need 7.5 or higher", i, ErrNoDevice, d.name, d.major, minor)
	}
	if v := d.drv.version(); d.major >= 10 && v < oldestBlackwell {
		return fmt.Errorf("cuda: GPU %d: %w: %s needs an NVIDIA driver for CUDA 12.8 (570) or later, this one is for %d.%d", i, ErrNoDevice, d.name, v/1000, v%1000/10)
	}
	d.major = min(d.major, majorOf(d.target)) // code for older GPUs uses nothing of newer ones
	return nil
}

func (d *Device) attribute(id uintptr) int {
	var v int32
	d.drv.call(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), id, d.handle)
	return int(v)
}

// prepare makes what every operation needs: context, stream and host memory.
func (d *Device) prepare() {
	r := d.drv.call(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&d.ctx)), d.handle)
	if r != success {
		d.fail("open "+d.name, r)
		return
	}
	d.current[0] = d.ctx
	d.onClose(func() { d.drv.call(cuDevicePrimaryCtxRelease, d.handle) })
	const nonBlocking = 1 // does not wait for the default stream
	d.do("open", cuStreamCreate, uintptr(unsafe.Pointer(&d.stream)), nonBlocking)
	d.onClose(func() { d.try(cuStreamDestroy, d.stream) })
	d.mark = d.event()
	d.preparePool()
	d.args.link()
	d.prepareFault()
	d.prepareRing(&d.ring)
	d.prepareBLAS()
}

// onClose has Close call f, before what it was told to call earlier.
func (d *Device) onClose(f func()) { d.closing = append(d.closing, f) }

// event makes an event that is destroyed with the device.
func (d *Device) event() uintptr {
	e := new(uintptr)
	d.do("open", cuEventCreate, uintptr(unsafe.Pointer(e)), 0)
	d.onClose(func() { d.try(cuEventDestroy, *e) })
	return *e
}

// Name names the GPU, and whose dense products it uses.
func (d *Device) Name() string {
	if d.blas.lib != nil {
		return "cuda, " + d.name + ", cublas"
	}
	return "cuda, " + d.name
}

// Activation is F16, the type that tensor cores multiply.
func (d *Device) Activation() tensor.Type { return tensor.F16 }

// Sync waits for the operations issued so far and returns the first failure.
func (d *Device) Sync() error {
	d.forbidWhileRecording("Sync")
	d.forbidWhileTaping("Sync")
	if d.do("Sync", cuStreamSynchronize, d.stream) {
		d.trail.clear()
		d.checkFault()
	}
	return d.err
}

// Close waits for the operations issued so far and frees everything.
func (d *Device) Close() error {
	if d.drv == nil {
		return nil
	}
	d.try(cuStreamSynchronize, d.stream)
	d.stopKeeping()
	d.carrier.settle(d)
	d.err = nil
	for m := range d.live {
		d.drop(m)
	}
	for _, module := range d.modules {
		d.try(cuModuleUnload, module)
	}
	for i := len(d.closing) - 1; i >= 0; i-- {
		d.closing[i]()
	}
	*d = Device{name: d.name, err: fmt.Errorf("cuda: %s is closed", d.name)}
	return nil
}

// try calls the driver with the device's context current.
//
//go:uintptrescapes
func (d *Device) try(s symbol, args ...uintptr) result {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if r := d.drv.invoke(cuCtxSetCurrent, d.current[:]); r != success {
		return r
	}
	return d.drv.invoke(s, args)
}

// changes reports whether a call reads or writes memory of the device, or lets somebody else do so.
func (s symbol) changes() bool {
	switch s {
	case cuMemsetD8Async, cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync, cuMemcpyPeerAsync, cuMemFree, cuMemFreeAsync, cuEventRecord, cuGraphLaunch, cuStreamSynchronize:
		return true
	}
	return false
}

// do calls the driver unless something has failed before, keeps a failure under
// the name of the operation, and reports success.
//
//go:uintptrescapes
func (d *Device) do(op string, s symbol, args ...uintptr) bool {
	if d.err != nil {
		return false
	}
	if s.changes() {
		d.settle()
	}
	d.tapeCall(op, s, args)
	r := d.try(s, args...)
	if r == outOfMemory && d.takeBack() {
		r = d.try(s, args...)
	}
	if r != success {
		d.fail(op, r)
	}
	return d.err == nil
}

// fail keeps the first failure. One that arises while kernels run is theirs,
// whichever call it comes out of.
func (d *Device) fail(op string, r result) {
	if r.asynchronous() {
		op = d.trail.blame(op)
	}
	d.failWith("%s: %s", op, d.drv.describe(r))
}

func (d *Device) failWith(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("cuda: "+format, args...)
	}
}

// forbidWhileTaping panics if operations are noted to be repeated, which this one cannot be.
func (d *Device) forbidWhileTaping(op string) {
	if d.tape != nil {
		panic("cuda: " + op + " while operations are noted: only launches, and what need not be waited for, can be repeated")
	}
}

// forbidWhileRecording panics if a recording is being made, in which an
// operation cannot take part.
func (d *Device) forbidWhileRecording(op string) {
	if d.recording {
		panic("cuda: " + op + " while recording: only operations on the device can be recorded")
	}
}
