package job

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"exl2/internal/safetensors"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// A Checkpoint keeps hidden states in front of a module in one file of a job.
type Checkpoint struct {
	job   *Job
	name  string
	every time.Duration
	last  time.Time
}

// Checkpoint returns the checkpoint in the named file, to be written that often.
// A run that is interrupted computes again what came after the last time.
func (j *Job) Checkpoint(name string, every time.Duration) *Checkpoint {
	return &Checkpoint{job: j, name: name, every: every, last: time.Now()}
}

// A Store is hidden states under the name they have in the file.
type Store struct {
	Name   string
	Hidden *stream.Store
}

// row names one row in the file.
func (s Store) row(r int) string { return fmt.Sprintf("%s/%d", s.Name, r) }

// Due reports whether it is time to write.
func (c *Checkpoint) Due() bool { return time.Since(c.last) > c.every }

// Write puts the hidden states in front of module next into the file.
func (c *Checkpoint) Write(next int, stores []Store) error {
	infos := []safetensors.Info{{Name: "next", DType: safetensors.I32, Shape: []int{1}}}
	for _, s := range stores {
		for r := range s.Hidden.Rows {
			infos = append(infos, safetensors.Info{Name: s.row(r), DType: safetensors.F32, Shape: []int{s.Hidden.Floats}})
		}
	}
	w, err := c.job.CreateTensors(c.name, infos)
	if err != nil {
		return fmt.Errorf("hidden states: %w", err)
	}
	defer w.Abort()
	if err := w.Write("next", binary.LittleEndian.AppendUint32(nil, uint32(next))); err != nil {
		return err
	}
	for _, s := range stores {
		if err := s.write(w); err != nil {
			return err
		}
	}
	if err := w.Commit(); err != nil {
		return err
	}
	c.last = time.Now()
	return nil
}

// write writes each row as a tensor.
func (s Store) write(w *safetensors.Writer) error {
	row := make([]float32, s.Hidden.Floats)
	for r := range s.Hidden.Rows {
		if err := s.Hidden.Read(row, r); err != nil {
			return err
		}
		if err := w.Write(s.row(r), tensor.BytesOf(row)); err != nil {
			return err
		}
	}
	return nil
}

// A Saved is a checkpoint that an earlier run has written.
type Saved struct {
	Next int // the module that the hidden states stand in front of

	c    *Checkpoint
	file *safetensors.File
}

// Open opens the file, or returns nil if there is none. It stands in front of
// module 1 to last.
func (c *Checkpoint) Open(last int) (*Saved, error) {
	f, err := c.job.OpenTensors(c.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Saved{c: c, file: f}
	var next [4]byte
	err = s.read(next[:], "next")
	if s.Next = int(binary.LittleEndian.Uint32(next[:])); err == nil && (s.Next < 1 || s.Next > last) {
		err = c.job.Damaged(c.name, fmt.Errorf("it is for module %d, want 1 to %d", s.Next, last))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// read reads a tensor that must have that many bytes.
func (s *Saved) read(dst []byte, name string) error {
	info, ok := s.file.Info(name)
	n, err := info.Bytes()
	if !ok || err != nil || n != int64(len(dst)) {
		return s.c.job.Damaged(s.c.name, fmt.Errorf("no tensor %q of %d bytes", name, len(dst)))
	}
	return s.file.ReadInto(dst, name)
}

// Restore fills stores from the file.
func (s *Saved) Restore(stores []Store) error {
	for _, store := range stores {
		row := make([]float32, store.Hidden.Floats)
		for r := range store.Hidden.Rows {
			if err := s.read(tensor.BytesOf(row), store.row(r)); err != nil {
				return err
			}
			if err := store.Hidden.Write(row, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes the file.
func (s *Saved) Close() { s.file.Close() }

// Remove deletes the file.
func (c *Checkpoint) Remove() error { return c.job.Remove(c.name) }
