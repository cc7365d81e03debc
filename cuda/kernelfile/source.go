package kernelfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// NVRTC is the version of the compiler, as its Python wheel has it.
const NVRTC = "12.9.86"

// Targets are the architectures that kernels are compiled for: machine code,
// and PTX that drivers compile for architectures that come later.
var Targets = []string{"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120", "compute_80"}

// Options are the compiler's options beside target and include folders.
var Options = []string{"--std=c++17"}

var includes = regexp.MustCompile(`(?m)^\s*#\s*include\s+"([^"]+)"`)

// Hash returns the hash of everything that decides the images of the kernels in
// dir/op.cu: that file, those that it includes, options, targets and compiler.
func Hash(dir fs.FS, op string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "nvrtc %s\noptions %s\ntargets %s\n", NVRTC, strings.Join(Options, " "), strings.Join(Targets, " "))
	names := []string{op + ".cu"}
	for i := 0; i < len(names); i++ {
		data, err := fs.ReadFile(dir, names[i])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "file %s %d\n", names[i], len(data))
		h.Write(data)
		for _, m := range includes.FindAllSubmatch(data, -1) {
			name := path.Join(path.Dir(names[i]), string(m[1]))
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Ops lists the kernel sources of dir, without their extension.
func Ops(dir fs.FS) ([]string, error) {
	files, err := fs.Glob(dir, "*.cu")
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".cu")
	}
	return files, err
}
