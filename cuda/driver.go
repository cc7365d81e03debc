package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"exl2/internal/dylib"
)

// A symbol is a function of libcuda.
type symbol uint8

// The functions that are used, by the names of cuda.h.
const (
	cuInit symbol = iota
	cuDriverGetVersion
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetAttribute
	cuDeviceCanAccessPeer
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxSetCurrent
	cuCtxEnablePeerAccess
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamQuery
	cuStreamWaitEvent
	cuStreamBeginCapture
	cuStreamEndCapture
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventSynchronize
	cuEventElapsedTime
	cuMemAlloc
	cuMemFree
	cuMemAllocAsync
	cuMemFreeAsync
	cuMemPoolGetAttribute
	cuMemPoolSetAttribute
	cuMemPoolTrimTo
	cuDeviceGetDefaultMemPool
	cuMemGetInfo
	cuMemHostAlloc
	cuMemFreeHost
	cuMemsetD8Async
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemcpyPeerAsync
	cuModuleLoadData
	cuModuleUnload
	cuModuleGetFunction
	cuFuncGetAttribute
	cuFuncSetAttribute
	cuLaunchKernel
	cuLaunchKernelEx
	cuOccupancyMaxActiveClusters
	cuTensorMapEncodeTiled
	cuGraphInstantiate
	cuGraphDestroy
	cuGraphLaunch
	cuGraphExecDestroy
	symbolCount
)

// exported are the names that libcuda exports the functions under: where a
// function has changed, cuda.h defines its name as that of a later version.
var exported = [symbolCount]string{
	cuInit: "cuInit", cuDriverGetVersion: "cuDriverGetVersion", cuGetErrorString: "cuGetErrorString",
	cuDeviceGetCount: "cuDeviceGetCount", cuDeviceGet: "cuDeviceGet", cuDeviceGetName: "cuDeviceGetName",
	cuDeviceGetAttribute: "cuDeviceGetAttribute", cuDeviceCanAccessPeer: "cuDeviceCanAccessPeer",
	cuDevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	cuCtxSetCurrent: "cuCtxSetCurrent", cuCtxEnablePeerAccess: "cuCtxEnablePeerAccess",
	cuStreamCreate: "cuStreamCreate", cuStreamDestroy: "cuStreamDestroy_v2", cuStreamSynchronize: "cuStreamSynchronize",
	cuStreamQuery: "cuStreamQuery", cuStreamWaitEvent: "cuStreamWaitEvent", cuStreamBeginCapture: "cuStreamBeginCapture_v2", cuStreamEndCapture: "cuStreamEndCapture",
	cuEventCreate: "cuEventCreate", cuEventDestroy: "cuEventDestroy_v2", cuEventRecord: "cuEventRecord",
	cuEventSynchronize: "cuEventSynchronize", cuEventElapsedTime: "cuEventElapsedTime",
	cuMemAlloc: "cuMemAlloc_v2", cuMemFree: "cuMemFree_v2",
	cuMemAllocAsync: "cuMemAllocAsync", cuMemFreeAsync: "cuMemFreeAsync", cuMemPoolGetAttribute: "cuMemPoolGetAttribute",
	cuMemPoolSetAttribute: "cuMemPoolSetAttribute", cuMemPoolTrimTo: "cuMemPoolTrimTo", cuDeviceGetDefaultMemPool: "cuDeviceGetDefaultMemPool",
	cuMemGetInfo:   "cuMemGetInfo_v2",
	cuMemHostAlloc: "cuMemHostAlloc", cuMemFreeHost: "cuMemFreeHost", cuMemsetD8Async: "cuMemsetD8Async",
	cuMemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2", cuMemcpyDtoHAsync: "cuMemcpyDtoHAsync_v2",
	cuMemcpyDtoDAsync: "cuMemcpyDtoDAsync_v2", cuMemcpyPeerAsync: "cuMemcpyPeerAsync",
	cuModuleLoadData: "cuModuleLoadData", cuModuleUnload: "cuModuleUnload", cuModuleGetFunction: "cuModuleGetFunction",
	cuFuncGetAttribute: "cuFuncGetAttribute", cuFuncSetAttribute: "cuFuncSetAttribute", cuLaunchKernel: "cuLaunchKernel", cuLaunchKernelEx: "cuLaunchKernelEx",
	cuOccupancyMaxActiveClusters: "cuOccupancyMaxActiveClusters",
	cuTensorMapEncodeTiled:       "cuTensorMapEncodeTiled",
	cuGraphInstantiate:           "cuGraphInstantiateWithFlags", cuGraphDestroy: "cuGraphDestroy",
	cuGraphLaunch: "cuGraphLaunch", cuGraphExecDestroy: "cuGraphExecDestroy",
}

// A result is a CUresult: 0 is success.
type result int32

// The results that this package tells apart.
const (
	success           result = 0
	outOfMemory       result = 2
	noDevice          result = 100
	notReady          result = 600
	peerAccessEnabled result = 704
)

// asynchronous reports whether r may be about any kernel launched before.
func (r result) asynchronous() bool { return r >= 700 && r < 720 && r != peerAccessEnabled }

// driver is libcuda.
type driver struct {
	invoke func(s symbol, args []uintptr) result
	blas   func() *cublasLibrary // finds cuBLAS; nil where there is none for this driver
}

// call calls a function of libcuda. Pointers among the arguments must be
// converted to uintptr in the call itself, or lie in memory that is reachable
// until it returns.
//
//go:uintptrescapes
func (d *driver) call(s symbol, args ...uintptr) result { return d.invoke(s, args) }

// describe returns the driver's words for a result.
func (d *driver) describe(r result) string {
	var text *byte
	if d.call(cuGetErrorString, uintptr(r), uintptr(unsafe.Pointer(&text))) != success || text == nil {
		return fmt.Sprintf("CUDA error %d", r)
	}
	return textAt(text)
}

// textAt returns a text as C has it, up to a zero.
func textAt(text *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(text), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(text, n))
}

// ErrNoDevice is why Open and Count fail where CUDA cannot be used at all; the
// error that wraps it says what is missing, in a line.
var ErrNoDevice = errors.New("no usable GPU")

// Versions as cuDriverGetVersion returns them. The kernels' machine code needs
// a driver for CUDA 12, on Blackwell one for 12.8.
const (
	oldestDriver    = 12000
	oldestBlackwell = 12080
)

// driverName is the library of the NVIDIA driver.
var driverName = map[bool]string{false: "libcuda.so.1", true: "nvcuda.dll"}[runtime.GOOS == "windows"]

// libcuda is the driver, loaded and initialized once.
var libcuda = sync.OnceValues(func() (*driver, error) {
	d, err := loadDriver(driverName)
	if err != nil {
		return nil, err
	}
	return d, d.start()
})

// loadDriver loads a library that exports what libcuda does. Functions that it
// lacks fail when they are called.
func loadDriver(path string) (*driver, error) {
	runtime.LockOSThread() // where the message about a failure is
	defer runtime.UnlockOSThread()
	lib, err := dylib.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: the NVIDIA driver is not installed (%s)", ErrNoDevice, firstLine(err))
	}
	var table [symbolCount]uintptr
	for s, name := range exported {
		table[s], _ = lib.Symbol(name)
	}
	const missing result = 500 // CUDA_ERROR_NOT_FOUND: named symbol not found
	return &driver{invoke: func(s symbol, args []uintptr) result {
		if table[s] == 0 {
			return missing
		}
		r, _, _ := purego.SyscallN(table[s], args...)
		return result(r)
	}, blas: libcublas}, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// start initializes the driver and checks its version.
func (d *driver) start() error {
	if r := d.call(cuInit, 0); r == noDevice {
		return fmt.Errorf("%w: the NVIDIA driver finds none", ErrNoDevice)
	} else if r != success {
		return fmt.Errorf("%w: the NVIDIA driver does not start: %s", ErrNoDevice, d.describe(r))
	}
	if version := d.version(); version < oldestDriver {
		return fmt.Errorf("%w: the NVIDIA driver is for CUDA %d.%d, want one for 12.0 (525) or later", ErrNoDevice, version/1000, version%1000/10)
	}
	return nil
}

func (d *driver) version() int {
	var v int32
	d.call(cuDriverGetVersion, uintptr(unsafe.Pointer(&v)))
	return int(v)
}

// count returns the number of GPUs.
func (d *driver) count() (int, error) {
	var n int32
	if r := d.call(cuDeviceGetCount, uintptr(unsafe.Pointer(&n))); r != success {
		return 0, fmt.Errorf("%w: %s", ErrNoDevice, d.describe(r))
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: the NVIDIA driver finds none", ErrNoDevice)
	}
	return int(n), nil
}
