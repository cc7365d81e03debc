// Command launchers writes cuda/kernels_gen.go: a typed Go method for every
// kernel in cuda/kernels/*.cu, so that a changed signature is a compile error.
// `go generate ./cuda` runs it.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"

	"exl2/cuda/kernelfile"
)

func main() {
	sources := flag.String("kernels", "kernels", "folder of sources")
	out := flag.String("o", "kernels_gen.go", "file to write")
	flag.Parse()
	text, err := generate(os.DirFS(*sources))
	if err == nil {
		err = os.WriteFile(*out, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "launchers:", err)
		os.Exit(1)
	}
}

// generate returns the Go source for the kernels of a folder.
func generate(sources fs.FS) ([]byte, error) {
	ops, err := kernelfile.Ops(sources)
	if err != nil {
		return nil, err
	}
	var kernels []kernel
	defined := map[string]string{}
	for _, op := range ops {
		text, err := fs.ReadFile(sources, op+".cu")
		if err != nil {
			return nil, err
		}
		found, err := parse(op, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s.cu: %w", op, err)
		}
		for _, k := range found {
			if other, ok := defined[k.Name]; ok {
				return nil, fmt.Errorf("%s.cu: kernel %s is in %s.cu, too", op, k.Name, other)
			}
			defined[k.Name] = op
		}
		kernels = append(kernels, found...)
	}
	return write(kernels)
}
