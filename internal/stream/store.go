// Package stream carries the hidden states of calibration rows from module to
// module. A [Store] holds them between modules, in memory or on disk; a [Pass]
// brings them through modules in batches.
package stream

import (
	"fmt"
	"os"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A Store holds rows of float32, each of the same length.
type Store struct {
	Rows, Floats int // rows, and floats in each

	memory []float32
	file   *os.File
	left   string // path of the file, if it could not be unlinked
}

// NewStore returns a store of zeros: in memory, or, if spill names a folder, in
// an unlinked file there that vanishes with the process (on Windows, with
// Close).
func NewStore(rows, floats int, spill string) (*Store, error) {
	s := &Store{Rows: rows, Floats: floats}
	if spill == "" {
		s.memory = make([]float32, rows*floats)
		return s, nil
	}
	f, err := os.CreateTemp(spill, "hidden-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("spill hidden states: %w", err)
	}
	if os.Remove(f.Name()) != nil { // Windows deletes no open file
		s.left = f.Name()
	}
	if err := f.Truncate(int64(rows) * int64(floats) * 4); err != nil {
		f.Close()
		return nil, fmt.Errorf("spill hidden states: %w", err)
	}
	s.file = f
	return s, nil
}

// Read fills dst with rows from row on.
func (s *Store) Read(dst []float32, row int) error {
	if s.file == nil {
		copy(dst, s.memory[row*s.Floats:])
		return nil
	}
	if _, err := s.file.ReadAt(tensor.BytesOf(dst), int64(row)*int64(s.Floats)*4); err != nil {
		return fmt.Errorf("read hidden states: %w", err)
	}
	return nil
}

// Write stores src in the rows from row on.
func (s *Store) Write(src []float32, row int) error {
	if s.file == nil {
		copy(s.memory[row*s.Floats:], src)
		return nil
	}
	if _, err := s.file.WriteAt(tensor.BytesOf(src), int64(row)*int64(s.Floats)*4); err != nil {
		return fmt.Errorf("write hidden states: %w", err)
	}
	return nil
}

// Load uploads rows from row on to t, which holds whole rows.
func (s *Store) Load(d device.Device, t tensor.Tensor, row int) error {
	if s.file == nil {
		n := t.Rows * t.Cols
		d.Upload(t, tensor.BytesOf(s.memory[row*s.Floats:][:n]))
		return nil
	}
	buf := make([]float32, t.Rows*t.Cols)
	err := s.Read(buf, row)
	d.Upload(t, tensor.BytesOf(buf))
	return err
}

// save downloads t, which holds whole rows, to the rows from row on.
func (s *Store) save(d device.Device, t tensor.Tensor, row int) error {
	if s.file == nil {
		n := t.Rows * t.Cols
		d.Download(tensor.BytesOf(s.memory[row*s.Floats:][:n]), t)
		return nil
	}
	buf := make([]float32, t.Rows*t.Cols)
	d.Download(tensor.BytesOf(buf), t)
	return s.Write(buf, row)
}

// Close frees the store.
func (s *Store) Close() {
	if s.file != nil {
		s.file.Close()
	}
	if s.left != "" {
		os.Remove(s.left)
	}
	s.memory = nil
}
