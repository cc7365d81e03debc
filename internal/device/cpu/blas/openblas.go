//go:build (linux || darwin || windows) && (amd64 || arm64)

package blas

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/ebitengine/purego"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"exl2/internal/device/cpu/simd"
	"exl2/internal/dylib"
)

// libraries are where an OpenBLAS is looked for.
var libraries = []string{
	"libopenblas.so.0", "libopenblas.so",
	"libopenblas.dll",
	"/opt/homebrew/opt/openblas/lib/libopenblas.dylib", "/usr/local/opt/openblas/lib/libopenblas.dylib",
}

// openBLAS is gonum's implementation with OpenBLAS's matrix products.
type openBLAS struct {
	gonum.Implementation
	sgemm func(order, tA, tB, m, n, k int32, alpha float32, a *float32, lda int32, b *float32, ldb int32, beta float32, c *float32, ldc int32)
	dgemm func(order, tA, tB, m, n, k int32, alpha float64, a *float64, lda int32, b *float64, ldb int32, beta float64, c *float64, ldc int32)
}

// openLibrary loads an OpenBLAS and turns its threads off. Builds that several
// threads must not call, and those with 64-bit integers, are refused.
func openLibrary(path string) (library, error) {
	preferCore()
	lib, err := dylib.OpenLocal(path)
	if err != nil {
		return library{}, err
	}
	var (
		o            openBLAS
		config, core func() string
		parallel     func() int32
		setThreads   func(int32)
	)
	for _, f := range []struct {
		name    string
		pointer any
	}{
		{"openblas_get_config", &config}, {"openblas_get_corename", &core}, {"openblas_get_parallel", &parallel},
		{"openblas_set_num_threads", &setThreads}, {"cblas_sgemm", &o.sgemm}, {"cblas_dgemm", &o.dgemm},
	} {
		address, err := lib.Symbol(f.name)
		if err != nil {
			return library{}, fmt.Errorf("not an OpenBLAS: %w", err)
		}
		purego.RegisterFunc(f.pointer, address)
	}
	if strings.Contains(config(), "USE64BITINT") {
		return library{}, errors.New("it is built with 64-bit integers, want 32-bit ones")
	}
	if parallel() == 0 {
		return library{}, errors.New("it is built without threads, so several must not call it")
	}
	setThreads(1)
	return library{&o, version(config()), core()}, nil
}

// preferCore asks OpenBLAS for the kernels of this processor's vector level,
// unless the user chose some: a library older than the processor does not
// recognize it and would fall back to those of 2004.
func preferCore() {
	const variable = "OPENBLAS_CORETYPE"
	cores := map[simd.Level]string{simd.AVX2: "Haswell", simd.AVX512: "SkylakeX"}
	if core := cores[simd.Active()]; core != "" && os.Getenv(variable) == "" {
		os.Setenv(variable, core)
	}
}

// version returns that in a configuration such as
// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
func version(config string) string {
	if f := strings.Fields(config); len(f) > 1 && f[0] == "OpenBLAS" {
		return f[1]
	}
	return "unknown"
}

// The values of cblas.h's enumerations.
const (
	cblasRowMajor = 101
	cblasNoTrans  = 111
	cblasTrans    = 112
)

// Sgemm is C = alpha·op(A)·op(B) + beta·C.
func (o *openBLAS) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	if !passes(&simd.Product[float32]{M: m, N: n, K: k, Alpha: alpha, A: operand(tA, a, lda), B: operand(tB, b, ldb), Beta: beta, C: c, LDC: ldc}) {
		return
	}
	o.sgemm(cblasRowMajor, cblasTranspose(tA), cblasTranspose(tB), int32(m), int32(n), int32(k), alpha, &a[0], int32(lda), &b[0], int32(ldb), beta, &c[0], int32(ldc))
}

// Dgemm is Sgemm in float64.
func (o *openBLAS) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	if !passes(&simd.Product[float64]{M: m, N: n, K: k, Alpha: alpha, A: operand(tA, a, lda), B: operand(tB, b, ldb), Beta: beta, C: c, LDC: ldc}) {
		return
	}
	o.dgemm(cblasRowMajor, cblasTranspose(tA), cblasTranspose(tB), int32(m), int32(n), int32(k), alpha, &a[0], int32(lda), &b[0], int32(ldb), beta, &c[0], int32(ldc))
}

// passes reports whether a product is left to the library: not one without
// operands, which is done here. It panics on what would make the library leave
// the operands' memory.
func passes[T simd.Float](p *simd.Product[T]) bool {
	if p.M == 0 || p.N == 0 || p.K == 0 || p.Alpha == 0 {
		simd.Gemm(p)
		return false
	}
	p.Check()
	if max(p.M, p.N, p.K, p.A.Row, p.A.Col, p.B.Row, p.B.Col, p.LDC) > math.MaxInt32 {
		panic("blas: product of more than 2147483647 rows or columns")
	}
	return true
}

func cblasTranspose(t blas.Transpose) int32 {
	if t == blas.NoTrans {
		return cblasNoTrans
	}
	return cblasTrans
}
