package kernelfile

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var images = []Image{{"sm_75", bytes.Repeat([]byte("seventy-five "), 99)}, {"sm_90a", []byte("ninety")}, {"compute_80", nil}}

func encode(t testing.TB) []byte {
	t.Helper()
	data, err := Encode("0123abcd", images)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRoundTrip(t *testing.T) {
	f, err := Parse(encode(t))
	if err != nil {
		t.Fatal(err)
	}
	if f.Source != "0123abcd" || !slices.Equal(f.Targets(), []string{"sm_75", "sm_90a", "compute_80"}) {
		t.Fatalf("source %q, targets %v", f.Source, f.Targets())
	}
	for _, m := range images {
		if got, err := f.Image(m.Target); err != nil || !bytes.Equal(got, m.Data) {
			t.Errorf("%s: %q, %v", m.Target, got, err)
		}
	}
	if _, err := f.Image("sm_80"); err == nil || !strings.Contains(err.Error(), "sm_80") {
		t.Errorf("image that is not there: %v", err)
	}
}

func TestSameBytes(t *testing.T) {
	if !bytes.Equal(encode(t), encode(t)) {
		t.Error("the same images give different files")
	}
}

func TestDamage(t *testing.T) {
	good := encode(t)
	for i := range good {
		if _, err := Parse(good[:i]); err == nil {
			t.Fatalf("%d of %d bytes pass for a file", i, len(good))
		}
	}
	if _, err := Parse(append(slices.Clone(good), 0)); err == nil {
		t.Error("a byte too many passes for a file")
	}
	flipped := slices.Clone(good)
	flipped[len(flipped)-3] ^= 1
	f, err := Parse(flipped)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range images {
		if _, err = f.Image(m.Target); err != nil {
			return
		}
	}
	t.Error("a flipped bit goes unnoticed")
}

// The hash follows includes, and nothing else in the folder.
func TestHash(t *testing.T) {
	dir := func(name, text string) fstest.MapFS {
		m := fstest.MapFS{
			"op.cu":    {Data: []byte("#include \"a.cuh\"\n#include <cuda_fp16.h>\n")},
			"a.cuh":    {Data: []byte("  # include \"b.cuh\"\n")},
			"b.cuh":    {Data: []byte("#include \"a.cuh\"\n")},
			"other.cu": {Data: []byte("other")},
		}
		if name != "" {
			m[name] = &fstest.MapFile{Data: append(m[name].Data, text...)}
		}
		return m
	}
	hash := func(m fstest.MapFS) string {
		h, err := Hash(m, "op")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	plain := hash(dir("", ""))
	for name, changes := range map[string]bool{"op.cu": true, "a.cuh": true, "b.cuh": true, "other.cu": false} {
		if got := hash(dir(name, "// more")) != plain; got != changes {
			t.Errorf("a change of %s changes the hash: %v, want %v", name, got, changes)
		}
	}
	gone := dir("", "")
	delete(gone, "b.cuh")
	if _, err := Hash(gone, "op"); err == nil {
		t.Error("a missing include goes unnoticed")
	}
}
