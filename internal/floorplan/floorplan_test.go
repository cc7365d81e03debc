// Package floorplan checks the imports of every package against the floor plan
// of docs/architecture.md.
package floorplan

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floors lists the packages from the ground up. A package may import packages
// of lower floors; of its own floor only those that allowed names.
var floors = [][]string{
	{"internal/half", "internal/sampling", "internal/safetensors", "internal/atomicfile", "internal/term", "internal/ordered", "internal/goldens", "internal/score", "internal/regular", "internal/mapped", "internal/parallel", "internal/dylib", "internal/machine", "internal/jinja", "infer/tokenizer/internal/..."},
	{"internal/tensor", "internal/exl2", "internal/affine", "internal/ptx", "infer/tokenizer", "internal/chat", "internal/chat/chattest"},
	{"internal/device", "internal/device/cpu/simd", "internal/device/cpu/blas", "internal/device/cpu", "internal/device/devtest", "internal/arch", "internal/prequant", "internal/prequant/prequanttest", "cuda/kernelfile", "cuda", "cuda/cudatest"},
	{"internal/model"},
	{"internal/stream", "internal/sampled", "internal/tokenweight", "internal/synth", "internal/synth/synthtest", "internal/job", "internal/profile", "internal/devices"},
	{"internal/quant"},
	{"measure", "quant", "calib", "calib/internal/...", "infer"},
	{"internal/sensitivity", "internal/distill", "internal/fold", "internal/fold/foldtest"},
	{"convert"},
	{"cmd/exl2"},
}

// allowed lists imports between packages of one floor.
var allowed = map[string][]string{
	"internal/regular":             {"internal/ordered"},
	"internal/safetensors":         {"internal/atomicfile", "internal/mapped", "internal/parallel", "internal/regular"},
	"internal/exl2":                {"internal/tensor"},
	"internal/affine":              {"internal/tensor"},
	"infer/tokenizer/internal/...": {"infer/tokenizer/internal/...", "internal/regular"},
	"internal/job":                 {"internal/stream"},
	"internal/synth/synthtest":     {"internal/synth"},
	"internal/arch":                {"internal/device"},
	"internal/prequant":            {"internal/arch"},
	"internal/device/cpu":          {"internal/device", "internal/device/cpu/simd", "internal/device/cpu/blas"},
	"internal/device/cpu/blas":     {"internal/device/cpu/simd"},
	"internal/device/devtest":      {"internal/device", "internal/device/cpu"},
	"internal/chat/chattest":       {"internal/chat"},
	"cuda":                         {"internal/device", "cuda/kernelfile"},
	"cuda/cudatest":                {"cuda", "internal/device"},
	"calib":                        {"calib/internal/..."},
	"calib/internal/...":           {"calib/internal/..."},
}

// rules are what the floors do not say.
var rules = []struct {
	why           string
	from, to      func(pkg string) bool
	exceptInTests bool
}{
	{"devices are opened by internal/devices alone", not(is("internal/devices", "internal/device/devtest", "cuda/cudatest")), is("cuda", "internal/device/cpu"), true},
	{"devices are opened for users of public packages", not(is("convert", "infer", "quant", "cmd/exl2")), is("internal/devices"), false},
	{"inference knows nothing of making models", is("infer"), is("convert", "measure", "quant", "calib"), false},
	{"making models knows nothing of inference", is("convert", "measure", "quant", "calib", "internal/quant", "internal/sensitivity"), is("infer"), true},
	{"the format's package stands on its own", is("internal/exl2"), not(is("internal/tensor", "internal/half", "internal/exl2")), true},
	{"internal/score is for the CPU device, infer, internal/sensitivity and convert", not(is("internal/device/cpu", "infer", "internal/sensitivity", "convert", "cmd/exl2", "internal/score")), is("internal/score"), false},
}

func is(names ...string) func(string) bool {
	return func(pkg string) bool { return slices.Contains(names, pkg) }
}

func not(f func(string) bool) func(string) bool { return func(pkg string) bool { return !f(pkg) } }

// place returns the name under which a package stands in the plan, and its floor.
func place(pkg string) (name string, floor int) {
	for i, f := range floors {
		for _, name := range f {
			if prefix, ok := strings.CutSuffix(name, "..."); name == pkg || ok && strings.HasPrefix(pkg, prefix) {
				return name, i
			}
		}
	}
	return "", -1
}

func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			_, module := os.Stat(filepath.Join(path, "go.mod"))
			if rel != "." && (module == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || rel == "build" || rel == "scripts") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			check(t, path, filepath.ToSlash(filepath.Dir(rel)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check verifies the imports of one file of package pkg.
func check(t *testing.T, path, pkg string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	if pkg == "internal/floorplan" {
		return
	}
	from, floor := place(pkg)
	if floor < 0 {
		t.Errorf("%s: package %s has no floor", path, pkg)
		return
	}
	test := strings.HasSuffix(path, "_test.go")
	for _, spec := range file.Imports {
		imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "exl2/")
		if !ours || imported == pkg {
			continue
		}
		to, below := place(imported)
		if !test && below >= floor && !slices.Contains(allowed[from], to) {
			t.Errorf("%s imports %s, which is not on a floor below", path, imported)
		}
		for _, r := range rules {
			if r.from(from) && r.to(to) && !(test && r.exceptInTests) {
				t.Errorf("%s imports %s: %s", path, imported, r.why)
			}
		}
	}
}
