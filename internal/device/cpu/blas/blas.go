// Package blas chooses the matrix products that gonum's blas32 and blas64 call
// on this machine, and factors matrices on top of them.
//
// The choices, best first: package simd, an OpenBLAS found at run time, gonum's
// own loops. Package simd is as fast as OpenBLAS, and its bits do not depend on how a
// product is cut, so that any number of cores can share one. All of them run on the calling goroutine alone; callers cut the
// work. Which one runs decides the last bits of results, so it has a name that
// jobs record.
package blas

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"

	"exl2/internal/device/cpu/simd"
)

// An implementation is what gonum's blas32 and blas64 can be given.
type implementation interface {
	blas.Float32
	blas.Float64
}

// A library is an implementation from outside the program.
type library struct {
	implementation
	version string
	core    string // the processor that its kernels are for
}

func (l library) name() string { return "openblas " + l.version + " " + l.core }

// Use installs the best BLAS, once, and returns its name, such as
// "simd avx512", "openblas 0.3.21 neoversen1" or "gonum".
//
// The environment variable EXL2_BLAS makes the choice: "none" for the best
// without a library, "simd", "gonum", "openblas", or the path of one. It is an
// error if what it names cannot be used, or if EXL2_SIMD cannot be followed.
func Use() (name string, err error) { return use() }

var use = sync.OnceValues(func() (string, error) {
	if err := simd.EnvError(); err != nil {
		return "", err
	}
	b, name, err := open(os.Getenv("EXL2_BLAS"))
	if err != nil {
		return "", err
	}
	install(b)
	return name, nil
})

func install(b implementation) {
	blas32.Use(b)
	blas64.Use(b)
}

// open returns the implementation that a value of EXL2_BLAS stands for.
func open(choice string) (b implementation, name string, err error) {
	switch choice {
	case "":
		if simd.Active() == simd.None {
			if b, name, err = open("openblas"); err == nil {
				return b, name, nil
			}
		}
		return open("none")
	case "none":
		if simd.Active() == simd.None {
			return open("gonum")
		}
		return open("simd")
	case "simd":
		if simd.Active() == simd.None {
			return nil, "", errors.New("EXL2_BLAS=simd: this machine has no AVX2, or EXL2_SIMD turns it off")
		}
		return vectors{}, "simd " + simd.Active().String(), nil
	case "gonum":
		return gonum.Implementation{}, "gonum", nil
	case "openblas":
		for _, path := range libraries {
			if l, err := openLibrary(path); err == nil {
				return l.implementation, l.name(), nil
			}
		}
		return nil, "", errors.New("EXL2_BLAS=openblas: no OpenBLAS is found; give the path of one")
	}
	l, err := openLibrary(choice)
	if err != nil {
		return nil, "", fmt.Errorf("EXL2_BLAS=%s: %w; want none, simd, gonum, openblas, or the path of one", choice, err)
	}
	return l.implementation, l.name(), nil
}
