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

// A Place is where stores keep their rows: in a device's memory, in a file, or,
// if it is zero, in the host's memory.
type Place struct {
	Device device.Device
	Host   bool   // in the host's memory, page-locked for Device where that is possible
	Folder string // of an unlinked file that vanishes with the process (on Windows, with Close)
}

// A Store holds rows of float32, each of the same length.
type Store struct {
	Rows, Floats int // rows, and floats in each

	dev    device.Device // that has the rows, or reaches them, or nil
	near   bool          // dev has them
	rows   tensor.Tensor // F32 [rows, floats], of dev
	memory []float32
	file   *os.File
	left   string // path of the file, if it could not be unlinked
}

// Store returns a store of zeros.
func (p Place) Store(rows, floats int) (*Store, error) {
	s := &Store{Rows: rows, Floats: floats}
	switch {
	case p.Device != nil && !p.Host:
		s.dev, s.near, s.rows = p.Device, true, p.Device.Alloc(tensor.F32, rows, floats)
		return s, p.Device.Sync()
	case p.Folder == "":
		if d, ok := p.Device.(device.Pinner); ok {
			if s.rows, ok = d.AllocHost(tensor.F32, rows, floats); ok {
				s.dev = p.Device
				return s, nil
			}
		}
		s.memory = make([]float32, rows*floats)
		return s, nil
	}
	return s, s.create(p.Folder)
}

// create makes the file of a store.
func (s *Store) create(folder string) error {
	f, err := os.CreateTemp(folder, "hidden-*.tmp")
	if err != nil {
		return fmt.Errorf("spill hidden states: %w", err)
	}
	if os.Remove(f.Name()) != nil { // Windows deletes no open file
		s.left = f.Name()
	}
	if err := f.Truncate(int64(s.Rows) * int64(s.Floats) * 4); err != nil {
		f.Close()
		return fmt.Errorf("spill hidden states: %w", err)
	}
	s.file = f
	return nil
}

// on returns the place of n floats from a row on, in the device's memory.
func (s *Store) on(row, n int) tensor.Tensor {
	return s.rows.Slice(row, row+(n+s.Floats-1)/s.Floats).Reshape(1, n)
}

// lendable is what rows of hidden states are a multiple of that operations may use in
// the place of their own: those of a state begin at addresses that are.
const lendable = 8

// lent returns n rows from a row on, as a tensor of so many columns, if the device has them.
func (s *Store) lent(d device.Device, row, n, cols int) (t tensor.Tensor, ok bool) {
	if !s.near || s.dev != d || cols%lendable != 0 {
		return t, false
	}
	return s.rows.Slice(row, row+n).Reshape(n*s.Floats/cols, cols), true
}

// Read fills dst with rows from row on.
func (s *Store) Read(dst []float32, row int) error {
	if s.dev != nil {
		s.dev.Download(tensor.BytesOf(dst), s.on(row, len(dst)))
		return s.dev.Sync()
	}
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
	if s.dev != nil {
		s.dev.Upload(s.on(row, len(src)), tensor.BytesOf(src))
		return nil
	}
	if s.file == nil {
		copy(s.memory[row*s.Floats:], src)
		return nil
	}
	if _, err := s.file.WriteAt(tensor.BytesOf(src), int64(row)*int64(s.Floats)*4); err != nil {
		return fmt.Errorf("write hidden states: %w", err)
	}
	return nil
}

// Load brings rows from row on to t, which holds whole rows, on the store's device
// or another.
func (s *Store) Load(d device.Device, t tensor.Tensor, row int) error {
	if s.dev == d {
		d.Copy(t, s.on(row, t.Rows*t.Cols))
		return nil
	}
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

// LoadEvery brings n rows to t, row and every step-th one behind it.
func (s *Store) LoadEvery(d device.Device, t tensor.Tensor, row, step, n int) error {
	length := t.Rows / n
	for i := range n {
		if err := s.Load(d, t.Slice(i*length, (i+1)*length), row+i*step); err != nil {
			return err
		}
	}
	return nil
}

// Save brings t, which holds whole rows, to the rows from row on.
func (s *Store) Save(d device.Device, t tensor.Tensor, row int) error {
	if s.dev == d {
		d.Copy(s.on(row, t.Rows*t.Cols), t)
		return nil
	}
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
	if s.dev != nil {
		s.dev.Free(s.rows)
	}
	s.memory, s.dev = nil, nil
}
