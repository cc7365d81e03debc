package cuda

import (
	"embed"
	"fmt"
	"strings"
	"unsafe"

	"exl2/cuda/kernelfile"
)

// bin has the compiled kernels: a file for each source.
//
//go:embed bin
var bin embed.FS

// function is a kernel that is loaded, or the zero value.
type function struct {
	handle uintptr
	own    int  // bytes of shared memory that it declares
	shared int  // bytes of dynamic shared memory that it may be launched with
	beside bool // it leaves room for others
}

// function returns a kernel, whose file is loaded if it is not yet.
func (d *Device) function(k kernel) *function {
	f := &d.functions[k]
	if f.handle == 0 {
		const declaredShared = 1 // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
		where := kernels[k]
		name := append([]byte(where.name), 0)
		d.do("find "+where.name, cuModuleGetFunction, uintptr(unsafe.Pointer(&f.handle)), d.module(where.op), uintptr(unsafe.Pointer(&name[0])))
		var own int32
		d.do("shared memory of "+where.name, cuFuncGetAttribute, uintptr(unsafe.Pointer(&own)), declaredShared, f.handle)
		f.own, f.shared = int(own), anyShared-int(own)
	}
	return f
}

// module returns the module of the kernels of one source.
func (d *Device) module(op string) uintptr {
	if m, ok := d.modules[op]; ok || d.err != nil {
		return m
	}
	image, err := imageOf(op, d.target)
	if err != nil {
		d.failWith("kernels %s: %w", op, err)
		return 0
	}
	var m uintptr
	if d.do("load of kernels "+op, cuModuleLoadData, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&image[0]))) {
		d.modules[op] = m
	}
	return m
}

// imageOf returns the kernels of one source for one target, ending in zeros as
// PTX must.
func imageOf(op, target string) ([]byte, error) {
	data, err := bin.ReadFile("bin/" + op + kernelfile.Ext)
	if err != nil {
		return nil, err
	}
	f, err := kernelfile.Parse(data)
	if err != nil {
		return nil, err
	}
	image, err := f.Image(target)
	return append(image, 0), err
}

// targetFor returns the target whose code runs on a GPU of the given compute
// capability: machine code for it, else for a lower one of the same major
// version, else PTX. Code for "sm_90a" runs on 9.0 and nothing else.
func targetFor(targets []string, major, minor int) (string, bool) {
	best, rank := "", 0
	for _, t := range targets {
		kind, number, _ := strings.Cut(t, "_")
		var n int
		exact := strings.HasSuffix(number, "a")
		if _, err := fmt.Sscanf(strings.TrimSuffix(number, "a"), "%d", &n); err != nil {
			continue
		}
		have, r := 10*major+minor, 0
		switch {
		case n > have || exact && n != have:
		case kind == "sm" && n/10 == major:
			r = 1000 + n
		case kind == "compute":
			r = n
		}
		if r > rank {
			best, rank = t, r
		}
	}
	return best, rank > 0
}

// majorOf returns the major compute capability that the code of a target is for.
func majorOf(target string) (major int) {
	_, number, _ := strings.Cut(target, "_")
	fmt.Sscanf(number, "%d", &major)
	return major / 10
}
