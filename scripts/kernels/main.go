// Command kernels compiles cuda/kernels/*.cu with NVRTC and writes
// cuda/bin/*.zst, where sources have changed. `make kernels` runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"exl2/cuda/kernelfile"
)

func main() {
	nvrtc := flag.String("nvrtc", "build/nvrtc/nvidia", "folder with NVIDIA's wheels")
	sources := flag.String("kernels", "cuda/kernels", "folder of sources")
	bin := flag.String("bin", "cuda/bin", "folder of compiled kernels")
	flag.Parse()
	if err := run(*nvrtc, *sources, *bin); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func run(nvrtc, sources, bin string) error {
	stale, err := outdated(os.DirFS(sources), bin)
	if err != nil || len(stale) == 0 {
		return err
	}
	c, err := openCompiler(nvrtc, sources)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	return c.buildAll(stale, bin)
}

// op is a source to be compiled.
type op struct{ name, hash string }

// outdated lists the sources whose compiled kernels are missing or were made
// from something else, and removes compiled kernels that have no source.
func outdated(sources fs.FS, bin string) ([]op, error) {
	names, err := kernelfile.Ops(sources)
	if err != nil {
		return nil, err
	}
	var stale []op
	for _, name := range names {
		hash, err := kernelfile.Hash(sources, name)
		if err != nil {
			return nil, err
		}
		if recorded(bin, name) != hash {
			stale = append(stale, op{name, hash})
		}
	}
	built, err := filepath.Glob(filepath.Join(bin, "*"+kernelfile.Ext))
	for _, path := range built {
		if !slices.Contains(names, strings.TrimSuffix(filepath.Base(path), kernelfile.Ext)) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return stale, err
}

// recorded returns the source hash of a compiled file, or "" without one.
func recorded(bin, name string) string {
	data, err := os.ReadFile(filepath.Join(bin, name+kernelfile.Ext))
	if err != nil {
		return ""
	}
	f, err := kernelfile.Parse(data)
	if err != nil {
		return ""
	}
	return f.Source
}

// job is the compilation of one source for one target.
type job struct{ op, target int }

// buildAll compiles every source for every target, on all cores, and writes
// those that compile.
func (c *compiler) buildAll(ops []op, bin string) error {
	images := make([][]kernelfile.Image, len(ops))
	jobs := make(chan job)
	var failed []error
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for j := range jobs {
				image, err := c.compile(ops[j.op].name, kernelfile.Targets[j.target])
				images[j.op][j.target] = image
				if err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range ops {
		images[i] = make([]kernelfile.Image, len(kernelfile.Targets))
		for t := range kernelfile.Targets {
			jobs <- job{i, t}
		}
	}
	close(jobs)
	wait.Wait()
	for i, o := range ops {
		if err := write(bin, o, images[i]); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// write writes a compiled file, unless a target is missing.
func write(bin string, o op, images []kernelfile.Image) error {
	if slices.ContainsFunc(images, func(m kernelfile.Image) bool { return m.Data == nil }) {
		return fmt.Errorf("%s.cu is not built", o.name)
	}
	data, err := kernelfile.Encode(o.hash, images)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes\n", o.name, len(data))
	return os.WriteFile(filepath.Join(bin, o.name+kernelfile.Ext), data, 0o644)
}
