package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAvailable(t *testing.T) {
	for text, want := range map[string]int{
		"MemTotal: 100 kB\nMemFree: 7 kB\nMemAvailable:    42 kB\n": 42 << 10,
		"MemTotal: 100 kB\n":   -1,
		"MemAvailable: many\n": -1,
		"":                     -1,
	} {
		got, ok := available([]byte(text))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// The tightest of the groups counts, without the files that it caches.
func TestGroupMemory(t *testing.T) {
	root := t.TempDir()
	self := filepath.Join(root, "self")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(self, "0::/outer/inner\n")
	if _, limited := groupMemory(self, root); limited {
		t.Error("limited without limits")
	}
	write(filepath.Join(root, "outer", "memory.max"), "1000\n")
	write(filepath.Join(root, "outer", "memory.current"), "900\n")
	write(filepath.Join(root, "outer", "memory.stat"), "anon 500\nactive_file 300\ninactive_file 100\n")
	write(filepath.Join(root, "outer", "inner", "memory.max"), "max\n")
	if got, limited := groupMemory(self, root); !limited || got != 500 {
		t.Errorf("%d, %v, want 500 of the outer group", got, limited)
	}
	write(filepath.Join(root, "outer", "inner", "memory.max"), "300\n")
	write(filepath.Join(root, "outer", "inner", "memory.current"), "400\n")
	if got, limited := groupMemory(self, root); !limited || got != 0 {
		t.Errorf("%d, %v, want nothing of the inner group", got, limited)
	}
}

func TestDiskOf(t *testing.T) {
	dir := t.TempDir()
	a, ok := DiskOf(dir)
	if !ok {
		t.Skip("not known on this system")
	}
	b, ok := DiskOf(filepath.Join(dir, "to", "be", "made"))
	if !ok || a.Free <= 0 || a.ID != b.ID {
		t.Errorf("%+v and %+v, %v", a, b, ok)
	}
}
