//go:build linux

package mapped

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"exl2/internal/parallel"
)

const page = 4096

// open maps a file of bytes that are 1.
func open(t *testing.T, size int) (f *File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "weights")
	data := make([]byte, size)
	for i := range data {
		data[i] = 1
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if f, err = Map(file, int64(size)); err != nil {
		t.Fatal(err)
	}
	return f, path
}

func sum(data []byte) (n int) {
	for _, b := range data {
		n += int(b)
	}
	return n
}

func TestBytes(t *testing.T) {
	f, _ := open(t, 3*page+7)
	err := Guard(func() error {
		if got := sum(f.Bytes()); got != 3*page+7 {
			t.Errorf("sum %d, want %d", got, 3*page+7)
		}
		return f.Close()
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTruncated touches a mapped file that has lost pages in every way that
// programs do.
func TestTruncated(t *testing.T) {
	cases := map[string]struct {
		left int
		work func(f *File) error
	}{
		"touched": {page, func(f *File) error { sum(f.Bytes()); return nil }},
		"copied":  {page, func(f *File) error { copy(make([]byte, len(f.Bytes())), f.Bytes()); return nil }},
		"touched by other goroutines": {page, func(f *File) error {
			parallel.Runs(len(f.Bytes()), 100, func(lo, hi int) { sum(f.Bytes()[lo:hi]) })
			return nil
		}},
		"touched by loops within loops": {0, func(f *File) error {
			parallel.For(3, func(int) {
				parallel.Runs(len(f.Bytes()), page, func(lo, hi int) { sum(f.Bytes()[lo:hi]) })
			})
			return nil
		}},
		"touched, and closed on the way out": {page, func(f *File) error { defer f.Close(); sum(f.Bytes()); return nil }},
		"the last bytes of a page":           {8*page - 10, func(f *File) error { sum(f.Bytes()); return nil }},
		"the last bytes, and closed":         {8*page - 10, func(f *File) error { sum(f.Bytes()); f.Close(); return nil }},
	}
	for name, c := range cases {
		for _, cores := range []int{1, 4} {
			t.Run(name, func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
				f, path := open(t, 8*page)
				err := Guard(func() error {
					if err := os.Truncate(path, int64(c.left)); err != nil {
						t.Fatal(err)
					}
					return c.work(f)
				})
				if !errors.Is(err, ErrTruncated) || !strings.HasPrefix(err.Error(), path+": ") {
					t.Errorf("error %v, want one that names the file", err)
				}
				f.Close()
			})
		}
	}
}

func TestWrittenToAFile(t *testing.T) {
	f, path := open(t, 8*page)
	defer f.Close()
	if err := Check(f.Bytes()[page:]); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(path, page); err != nil {
		t.Fatal(err)
	}
	if err := Check(f.Bytes()[page:]); !errors.Is(err, ErrTruncated) {
		t.Errorf("error %v, want that the file was truncated", err)
	}
	if err := Check(make([]byte, page)); err != nil {
		t.Errorf("memory that is not mapped: %v", err)
	}
}

func TestOtherErrorsAndPanics(t *testing.T) {
	other := errors.New("other")
	if err := Guard(func() error { return other }); err != other {
		t.Errorf("error %v, want the work's own", err)
	}
	for name, cause := range map[string]any{"text": "other", "error": other} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := recover(); got != cause {
					t.Errorf("recovered %v, want %v", got, cause)
				}
			}()
			Guard(func() error { panic(cause) })
		})
	}
	t.Run("nil pointer", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("a fault that is no file's was swallowed")
			}
		}()
		var p *int
		Guard(func() error { *p = 1; return nil })
	})
}

// TestAddressesAreReused maps file after file: what is known of closed ones
// must not grow without end.
func TestAddressesAreReused(t *testing.T) {
	for range 100 {
		f, _ := open(t, page)
		f.Close()
	}
	all.Lock()
	defer all.Unlock()
	if len(all.files) > 50 {
		t.Errorf("%d files are remembered", len(all.files))
	}
}
