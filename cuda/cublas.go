package cuda

import (
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"exl2/internal/dylib"
	"exl2/internal/tensor"
)

// cublas is cuBLAS, if it is there: the dense products of a GPU's vendor. The
// zero value has none.
type cublas struct {
	lib    *cublasLibrary
	handle uintptr
}

// cublasLibrary is the functions of libcublas.
type cublasLibrary struct{ create, destroy, setStream, setWorkspace, setPointerMode, gemmEx uintptr }

// cublasNames returns the libraries that are looked for, the newest first.
// Windows finds those in PATH, to which CUDA's installer adds its own.
func cublasNames() []string {
	if runtime.GOOS == "windows" {
		return []string{"cublas64_13.dll", "cublas64_12.dll"}
	}
	return []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so"}
}

// libcublas is the library, loaded once, or nil. EXL2_NO_CUBLAS=1 has it passed
// over.
var libcublas = sync.OnceValue(func() *cublasLibrary {
	if v := os.Getenv("EXL2_NO_CUBLAS"); v != "" && v != "0" {
		return nil
	}
	for _, name := range cublasNames() {
		lib, err := dylib.Open(name)
		if err != nil {
			continue
		}
		l := &cublasLibrary{}
		for name, to := range map[string]*uintptr{
			"cublasCreate_v2": &l.create, "cublasDestroy_v2": &l.destroy, "cublasSetStream_v2": &l.setStream,
			"cublasSetWorkspace_v2": &l.setWorkspace, "cublasSetPointerMode_v2": &l.setPointerMode, "cublasGemmEx": &l.gemmEx,
		} {
			*to, _ = lib.Symbol(name)
		}
		if l.create != 0 && l.destroy != 0 && l.setStream != 0 && l.setWorkspace != 0 && l.setPointerMode != 0 && l.gemmEx != 0 {
			return l
		}
	}
	return nil
})

// cublasWorkspace is the memory that cuBLAS may use, as its manual recommends
// for Hopper. Given beforehand, it is the same in recordings.
const cublasWorkspace = 32 << 20

// prepareBLAS makes a handle for the device's stream, if there is cuBLAS.
func (d *Device) prepareBLAS() {
	if d.drv.blas == nil || d.err != nil {
		return
	}
	lib := d.drv.blas()
	if lib == nil {
		return
	}
	handle := new(uintptr)
	if d.blasCall(lib.create, uintptr(unsafe.Pointer(handle))) != 0 {
		return // no cuBLAS is no failure
	}
	d.onClose(func() { d.blasCall(lib.destroy, *handle) })
	space := d.Alloc(tensor.U8, 1, cublasWorkspace)
	if d.blasCall(lib.setStream, *handle, d.stream) == 0 && d.blasCall(lib.setWorkspace, *handle, d.address("cublas", space), cublasWorkspace) == 0 {
		d.blas = cublas{lib, *handle}
	}
}

// blasCall calls a function of cuBLAS with the device's context current.
//
//go:uintptrescapes
func (d *Device) blasCall(f uintptr, args ...uintptr) int32 {
	d.settle()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d.drv.invoke(cuCtxSetCurrent, d.current[:])
	r, _, _ := purego.SyscallN(f, args...)
	return int32(r)
}

// Constants of cublas_api.h and library_types.h.
const (
	cublasOpN, cublasOpT = 0, 1
	cudaR32F, cudaR16F   = 0, 2
	cublasCompute32F     = 68
	cublasDefaultAlgo    = 0xffffffff // -1
)

// gemm computes a product, and reports whether it could: cuBLAS adds no bias, and what it
// launches is on no tape.
func (b *cublas) gemm(d *Device, p product) bool {
	if b.lib == nil || d.tape != nil || p.x.Cols%8 != 0 || !p.bias.Nil() {
		return false
	}
	if d.err != nil {
		return true
	}
	m, n, k := p.x.Rows, p.w.Rows, p.x.Cols
	alpha, beta, kind := float32(1), float32(0), uintptr(cudaR16F)
	if p.y.Type == tensor.F32 {
		kind = cudaR32F
	}
	// Column-major, as cuBLAS sees memory: yᵀ [n, m] = w [n, k] · xᵀ [k, m].
	status := d.blasCall(b.lib.gemmEx, b.handle, cublasOpT, cublasOpN, uintptr(n), uintptr(m), uintptr(k),
		uintptr(unsafe.Pointer(&alpha)), d.address("MatMul", p.w), cudaR16F, uintptr(k), d.address("MatMul", p.x), cudaR16F, uintptr(p.x.Stride),
		uintptr(unsafe.Pointer(&beta)), d.address("MatMul", from(p.y, p.column)), kind, uintptr(p.y.Stride), cublasCompute32F, cublasDefaultAlgo)
	b.check(d, "MatMul", status)
	return true
}

func (b *cublas) check(d *Device, op string, status int32) {
	if status != 0 {
		d.failWith("%s: cuBLAS fails with status %d; EXL2_NO_CUBLAS=1 does without it", op, status)
	}
}

// gram computes h += xᵀ·y of fp16, and reports whether it could.
func (b *cublas) gram(d *Device, h, x, y tensor.Tensor) bool {
	if b.lib == nil || d.tape != nil || !halves8(x) || !halves8(y) || x.Rows == 0 {
		return false
	}
	if d.err != nil {
		return true
	}
	one := float32(1)
	// Column-major: hᵀ [y's columns, x's] = yᵀ · x, as memory has them y and xᵀ.
	status := d.blasCall(b.lib.gemmEx, b.handle, cublasOpN, cublasOpT, uintptr(y.Cols), uintptr(x.Cols), uintptr(x.Rows),
		uintptr(unsafe.Pointer(&one)), d.address("Gram", y), cudaR16F, uintptr(y.Stride), d.address("Gram", x), cudaR16F, uintptr(x.Stride),
		uintptr(unsafe.Pointer(&one)), d.address("Gram", h), cudaR32F, uintptr(h.Cols), cublasCompute32F, cublasDefaultAlgo)
	b.check(d, "Gram", status)
	return true
}
