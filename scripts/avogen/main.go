// Command avogen writes the assembly of internal/device/cpu/simd and the Go
// declarations that go with it. It is a module of its own because avo wants
// old versions of packages that the main module has newer.
//
//	go run -C scripts/avogen . DIR
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// sources maps the name of a pair of files, NAME_amd64.s and
// NAME_stubs_amd64.go, to what emits its routines.
var sources = []struct {
	name string
	emit func(*assembly)
}{
	{"gemm", emitGemm},
	{"pack", emitPack},
	{"half", emitHalf},
	{"gemv", emitGemv},
	{"packed", emitPacked},
	{"collect", emitCollect},
	{"grid", emitGrid},
	{"pairs", emitPairs},
	{"exp", emitExp},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: avogen DIR")
	}
	files, err := generate()
	if err != nil {
		log.Fatal("avogen: ", err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), data, 0o644); err != nil {
			log.Fatal("avogen: ", err)
		}
	}
}

// generate returns the contents of all files by name.
func generate() (map[string][]byte, error) {
	files := make(map[string][]byte)
	cfg := printer.Config{Name: "avogen", Pkg: "simd"}
	for _, s := range sources {
		a := newAssembly()
		s.emit(a)
		f, err := a.Result()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		if err := pass.Compile.Execute(f); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		for name, p := range map[string]printer.Printer{
			s.name + "_amd64.s":        printer.NewGoAsm(cfg),
			s.name + "_stubs_amd64.go": printer.NewStubs(cfg),
		} {
			text, err := p.Print(f)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			files[name] = append(bytes.TrimRight(text, "\n"), '\n')
		}
	}
	return files, nil
}
