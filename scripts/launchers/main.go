// Command launchers writes cuda/kernels_gen.go: a typed Go method for every
// kernel in cuda/kernels/*.cu, so that a changed signature is a compile error.
// `go generate ./cuda` runs it.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"strings"
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
	all := launchers{files: map[string]known{}}
	for _, ext := range []string{".cuh", ".cu"} {
		files, err := fs.Glob(sources, "*"+ext)
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if err := all.add(sources, name); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return all.write()
}

// launchers is what the generated file holds.
type launchers struct {
	Kernels   []kernel
	Constants []constant

	files map[string]known
}

// known is what a source, or one that includes it, knows by name: its own and what its headers know.
type known struct {
	constants map[string]string // their Go names
	waiting   map[string]bool   // functions that wait
}

var included = regexp.MustCompile(`(?m)^#include "([^"]+)"`)

// add reads one source, behind the headers that it includes.
func (l *launchers) add(sources fs.FS, name string) error {
	if _, added := l.files[name]; added {
		return nil
	}
	own := known{map[string]string{}, map[string]bool{}}
	l.files[name] = own
	ext := path.Ext(name)
	text, err := fs.ReadFile(sources, name)
	if err != nil {
		return err
	}
	for _, m := range included.FindAllSubmatch(text, -1) {
		if err := l.add(sources, string(m[1])); err != nil {
			return fmt.Errorf("%s: %w", m[1], err)
		}
		header := l.files[string(m[1])]
		maps.Copy(own.constants, header.constants)
		maps.Copy(own.waiting, header.waiting)
	}
	source := expanded(string(text))
	maps.Copy(own.waiting, waits(source, own.waiting))
	op := strings.TrimSuffix(name, ext)
	found, err := constants(op, string(text), own.constants)
	if err != nil {
		return err
	}
	l.Constants = append(l.Constants, found...)
	if ext == ".cuh" {
		for _, c := range found {
			own.constants[strings.TrimPrefix(c.Name, op+"_")] = c.Name
		}
		return nil
	}
	kernels, err := parse(op, source, own.waiting)
	if err != nil {
		return err
	}
	for _, k := range kernels {
		for _, other := range l.Kernels {
			if other.Name == k.Name {
				return fmt.Errorf("kernel %s is in %s.cu, too", k.Name, other.Op)
			}
		}
	}
	l.Kernels = append(l.Kernels, kernels...)
	return nil
}
