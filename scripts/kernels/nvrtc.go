package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"exl2/cuda/kernelfile"
	"exl2/internal/dylib"
)

// compiler is libnvrtc and where it finds headers.
type compiler struct {
	sources  string
	includes []string

	create   func(prog *uintptr, src, name string, headers int32, bodies, names uintptr) int32
	run      func(prog uintptr, n int32, options **byte) int32
	destroy  func(prog *uintptr) int32
	log      output
	cubin    output
	ptx      output
	describe func(result int32) string
}

// output is a result of NVRTC: a size and the bytes.
type output struct {
	size func(prog uintptr, n *uintptr) int32
	get  func(prog uintptr, dst *byte) int32
}

// openCompiler loads libnvrtc from the folder in which the wheels are unpacked.
func openCompiler(wheels, sources string) (*compiler, error) {
	root, err := filepath.Abs(wheels)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(root, "cuda_nvrtc", "lib", "libnvrtc.so.12")
	lib, err := dylib.OpenLocal(path)
	if err != nil {
		return nil, fmt.Errorf("%w; `make kernels` fetches it", err)
	}
	c := &compiler{sources: sources, includes: []string{
		sources, filepath.Join(root, "cuda_runtime", "include"), filepath.Join(root, "cuda_cccl", "include"), filepath.Join(root, "cuda_nvcc", "include"),
	}}
	var version func(major, minor *int32) int32
	for _, f := range []struct {
		pointer any
		name    string
	}{
		{&version, "nvrtcVersion"}, {&c.create, "nvrtcCreateProgram"}, {&c.run, "nvrtcCompileProgram"}, {&c.destroy, "nvrtcDestroyProgram"},
		{&c.log.size, "nvrtcGetProgramLogSize"}, {&c.log.get, "nvrtcGetProgramLog"}, {&c.cubin.size, "nvrtcGetCUBINSize"}, {&c.cubin.get, "nvrtcGetCUBIN"},
		{&c.ptx.size, "nvrtcGetPTXSize"}, {&c.ptx.get, "nvrtcGetPTX"}, {&c.describe, "nvrtcGetErrorString"},
	} {
		address, err := lib.Symbol(f.name)
		if err != nil {
			return nil, err
		}
		purego.RegisterFunc(f.pointer, address)
	}
	var major, minor int32
	version(&major, &minor)
	if have := fmt.Sprintf("%d.%d.", major, minor); !strings.HasPrefix(kernelfile.NVRTC, have) {
		return nil, fmt.Errorf("%s is version %s, want %s", path, have, kernelfile.NVRTC)
	}
	return c, nil
}

// compile compiles the kernels of one source for one target. Warnings are
// errors: a spilled or ignored directive should not go unseen.
func (c *compiler) compile(op, target string) (kernelfile.Image, error) {
	source, err := os.ReadFile(filepath.Join(c.sources, op+".cu"))
	if err != nil {
		return kernelfile.Image{}, err
	}
	var prog uintptr
	if r := c.create(&prog, string(source), op+".cu", 0, 0, 0); r != 0 {
		return kernelfile.Image{}, fmt.Errorf("%s: %s", op, c.describe(r))
	}
	defer c.destroy(&prog)
	options := append([]string{"--gpu-architecture=" + target}, kernelfile.Options...)
	for _, dir := range c.includes {
		options = append(options, "--include-path="+dir)
	}
	result := c.runWith(prog, options)
	if log := strings.Trim(string(c.log.bytes(prog)), "\x00\n "); log != "" || result != 0 {
		return kernelfile.Image{}, fmt.Errorf("%s.cu for %s: %s\n%s", op, target, c.describe(result), log)
	}
	out := c.cubin
	if strings.HasPrefix(target, "compute_") {
		out = c.ptx
	}
	image := kernelfile.Image{Target: target, Data: out.bytes(prog)}
	if err := kernelfile.Check(image.Data); err != nil {
		return kernelfile.Image{}, fmt.Errorf("%s.cu for %s: %w", op, target, err)
	}
	return image, nil
}

// runWith compiles with options, which C wants as an array of strings.
func (c *compiler) runWith(prog uintptr, options []string) int32 {
	var pin runtime.Pinner
	defer pin.Unpin()
	list := make([]*byte, len(options))
	for i, o := range options {
		list[i] = unsafe.StringData(o + "\x00")
		pin.Pin(list[i])
	}
	return c.run(prog, int32(len(list)), unsafe.SliceData(list))
}

func (o output) bytes(prog uintptr) []byte {
	var n uintptr
	if o.size(prog, &n) != 0 || n == 0 {
		return nil
	}
	data := make([]byte, n)
	if o.get(prog, unsafe.SliceData(data)) != 0 {
		return nil
	}
	return data
}
