package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"exl2/cuda/kernelfile"
)

var root = filepath.Join("..", "..", "cuda")

// The compiled kernels in the repository are those of its sources, for every
// target, and there are no others.
func TestUpToDate(t *testing.T) {
	sources := os.DirFS(filepath.Join(root, "kernels"))
	names, err := kernelfile.Ops(sources)
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		want, err := kernelfile.Hash(sources, name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(root, "bin", name+kernelfile.Ext))
		if err != nil {
			t.Errorf("%v; run `make kernels`", err)
			continue
		}
		f, err := kernelfile.Parse(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f.Source != want {
			t.Errorf("%s is compiled from other sources; run `make kernels`", name)
		}
		if !slices.Equal(f.Targets(), kernelfile.Targets) {
			t.Errorf("%s is compiled for %v, want %v", name, f.Targets(), kernelfile.Targets)
		}
	}
	if built, _ := filepath.Glob(filepath.Join(root, "bin", "*")); len(built) != len(names) {
		t.Errorf("%d files in cuda/bin for %d sources; run `make kernels`", len(built), len(names))
	}
}

// Only what has changed is compiled, and what has lost its source is removed.
func TestOutdated(t *testing.T) {
	bin := t.TempDir()
	sources := fstest.MapFS{"new.cu": {Data: []byte("1")}, "same.cu": {Data: []byte("2")}, "changed.cu": {Data: []byte("3")}}
	same, err := kernelfile.Hash(sources, "same")
	if err != nil {
		t.Fatal(err)
	}
	for name, hash := range map[string]string{"same": same, "changed": "0", "gone": "0"} {
		data, err := kernelfile.Encode(hash, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, name+kernelfile.Ext), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stale, err := outdated(sources, bin)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range stale {
		names = append(names, o.name)
	}
	if !slices.Equal(names, []string{"changed", "new"}) {
		t.Errorf("stale: %v", names)
	}
	if _, err := os.Stat(filepath.Join(bin, "gone.zst")); !os.IsNotExist(err) {
		t.Error("a compiled file without source stays")
	}
}

// A compiler that is there compiles the same bytes every time, and says where
// an error is.
func TestCompile(t *testing.T) {
	wheels := filepath.Join("..", "..", "build", "nvrtc", "nvidia")
	if _, err := os.Stat(wheels); err != nil {
		t.Skip("no NVRTC; `make kernels` fetches it:", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "good.cu"), []byte(`extern "C" __global__ void good(int* x) { *x = 1; }`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.cu"), []byte("\nint x = y;"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := openCompiler(wheels, dir)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.compile("good", "sm_86")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := c.compile("good", "sm_86"); err != nil || string(second.Data) != string(first.Data) {
		t.Error("the second compilation differs:", err)
	}
	if _, err := c.compile("bad", "sm_86"); err == nil || !contains(err.Error(), "bad.cu for sm_86", "bad.cu(2)", "identifier \"y\"") {
		t.Error(err)
	}
}

func contains(s string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
}
