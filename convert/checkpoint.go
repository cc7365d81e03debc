package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"exl2/internal/safetensors"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// checkpointEvery is how often hidden states are written. A run that is
// interrupted recomputes what came after the last time.
var checkpointEvery = 3 * time.Minute

// A checkpoint keeps hidden states in front of a module in one file.
type checkpoint struct {
	path string
	last time.Time
}

func newCheckpoint(path string) *checkpoint { return &checkpoint{path: path, last: time.Now()} }

// A namedStore is hidden states under the name they have in the file.
type namedStore struct {
	name  string
	store *stream.Store
}

// row names one row in the file.
func (s namedStore) row(r int) string { return fmt.Sprintf("%s/%d", s.name, r) }

// due reports whether it is time to write.
func (c *checkpoint) due() bool { return time.Since(c.last) > checkpointEvery }

// write puts the hidden states in front of module next into the file.
func (c *checkpoint) write(next int, stores []namedStore) error {
	infos := []safetensors.Info{{Name: "next", DType: safetensors.I32, Shape: []int{1}}}
	for _, s := range stores {
		for r := range s.store.Rows {
			infos = append(infos, safetensors.Info{Name: s.row(r), DType: safetensors.F32, Shape: []int{s.store.Floats}})
		}
	}
	w, err := safetensors.Create(c.path, infos)
	if err != nil {
		return fmt.Errorf("hidden states: %w", err)
	}
	defer w.Abort()
	if err := w.Write("next", binary.LittleEndian.AppendUint32(nil, uint32(next))); err != nil {
		return err
	}
	for _, s := range stores {
		if err := writeStore(w, s); err != nil {
			return err
		}
	}
	if err := w.Commit(); err != nil {
		return err
	}
	c.last = time.Now()
	return nil
}

// writeStore writes each row of a store as a tensor.
func writeStore(w *safetensors.Writer, s namedStore) error {
	row := make([]float32, s.store.Floats)
	for r := range s.store.Rows {
		if err := s.store.Read(row, r); err != nil {
			return err
		}
		if err := w.Write(s.row(r), tensor.BytesOf(row)); err != nil {
			return err
		}
	}
	return nil
}

// open opens the file, if there is one, and returns the module it stands in
// front of: 1 to last.
func (c *checkpoint) open(last int) (f *safetensors.File, next int, err error) {
	f, err = safetensors.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	t, err := f.Get("next")
	if err == nil && len(t.Data) == 4 {
		next = int(binary.LittleEndian.Uint32(t.Data))
	}
	if next < 1 || next > last {
		f.Close()
		return nil, 0, fmt.Errorf("job file %s: no tensor \"next\" of 1 to %d; --restart begins again", c.path, last)
	}
	return f, next, nil
}

// restore fills a store from the file.
func restore(f *safetensors.File, s namedStore) error {
	row := make([]float32, s.store.Floats)
	for r := range s.store.Rows {
		t, err := f.Get(s.row(r))
		if err != nil {
			return err
		}
		if len(t.Data) != 4*len(row) {
			return fmt.Errorf("hidden states: %s has %d bytes, want %d; --restart begins again", t.Name, len(t.Data), 4*len(row))
		}
		copy(tensor.BytesOf(row), t.Data)
		if err := s.store.Write(row, r); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the file.
func (c *checkpoint) remove() error {
	if err := os.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
