package quant

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Scalars are float64 numbers that a device computes and that are fetched
// together, so that the host waits once.
type Scalars struct {
	dev    device.Quantize
	all    tensor.Tensor // F64 [1, n]
	used   int
	values []float64
}

// NewScalars returns room for n numbers.
func NewScalars(d device.Quantize, n int) *Scalars {
	return &Scalars{dev: d, all: d.Alloc(tensor.F64, 1, n)}
}

// Take returns the places of the next n numbers.
func (s *Scalars) Take(n int) tensor.Tensor {
	s.used += n
	return s.all.Columns(s.used-n, s.used)
}

// Fetch waits and brings all numbers to the host.
func (s *Scalars) Fetch() error {
	s.values = make([]float64, s.used)
	s.dev.Download(tensor.BytesOf(s.values), s.all.Columns(0, s.used))
	return s.dev.Sync()
}

// Values returns the numbers at the places that Take has returned.
func (s *Scalars) Values(at tensor.Tensor) []float64 {
	first := (at.Off - s.all.Off) / tensor.F64.Size()
	return s.values[first : first+at.Cols]
}

// All returns all numbers.
func (s *Scalars) All() []float64 { return s.values }

// Free frees the numbers on the device.
func (s *Scalars) Free() { s.dev.Free(s.all) }
