package devtest

import (
	"bytes"
	"fmt"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// activation stands for the activation type of whatever device it is.
const activation tensor.Type = 255

// A fixture allocates the operands of a case on one device.
type fixture struct {
	dev      device.Device
	round    tensor.Type // what activations are rounded to on every device
	operands []*operand
	matrices []device.Matrix
	caches   []device.Cache
	prepared []func() // what gives caches their initial contents
}

// An operand is a tensor between two guard rows.
type operand struct {
	name    string
	tensor  tensor.Tensor
	block   tensor.Tensor // the tensor and its guards
	initial []byte        // of block
	written bool          // by the operation
}

// add allocates an operand whose elements are data.
func (f *fixture) add(o operand, t tensor.Type, rows, cols int, data []byte) tensor.Tensor {
	o.block = f.dev.Alloc(t, rows+2, cols)
	o.tensor = o.block.Slice(1, rows+1)
	guard := guardRow(t, cols)
	o.initial = append(append(append([]byte(nil), guard...), data...), guard...)
	f.dev.Upload(o.block, o.initial)
	f.operands = append(f.operands, &o)
	return o.tensor
}

// floats allocates an operand of floating-point values.
func (f *fixture) floats(o operand, t tensor.Type, rows, cols int, v values) tensor.Tensor {
	if t == activation {
		t, v = f.dev.Activation(), rounded(v, f.round)
	}
	return f.add(o, t, rows, cols, encode(t, rows*cols, v))
}

// in allocates what the operation reads.
func (f *fixture) in(name string, t tensor.Type, rows, cols int, v values) tensor.Tensor {
	return f.floats(operand{name: name}, t, rows, cols, v)
}

// inOut allocates what the operation changes.
func (f *fixture) inOut(name string, t tensor.Type, rows, cols int, v values) tensor.Tensor {
	return f.floats(operand{name: name, written: true}, t, rows, cols, v)
}

// out allocates what the operation writes.
func (f *fixture) out(name string, t tensor.Type, rows, cols int) tensor.Tensor {
	return f.inOut(name, t, rows, cols, nothing)
}

// ints allocates integers that the operation reads.
func (f *fixture) ints(name string, rows, cols int, v []int32) tensor.Tensor {
	return f.add(operand{name: name}, tensor.I32, rows, cols, encodeInts(v))
}

// intsOut allocates integers that the operation changes.
func (f *fixture) intsOut(name string, rows, cols int, v []int32) tensor.Tensor {
	return f.add(operand{name: name, written: true}, tensor.I32, rows, cols, encodeInts(v))
}

// matrix loads an EXL2 matrix.
func (f *fixture) matrix(m *exl2.Matrix, out int) device.Matrix {
	w := f.dev.LoadEXL2(m, out)
	f.matrices = append(f.matrices, w)
	return w
}

// cache makes a cache.
func (f *fixture) cache(s device.CacheShape) device.Cache {
	c := f.dev.NewCache(s)
	f.caches = append(f.caches, c)
	return c
}

// prepare calls what gives caches their initial contents, now and at every
// reset.
func (f *fixture) prepare(fn func()) {
	fn()
	f.prepared = append(f.prepared, fn)
}

// reset gives caches and operands that have been written their initial values.
func (f *fixture) reset() {
	for _, fn := range f.prepared {
		fn()
	}
	for _, o := range f.operands {
		if o.written {
			f.dev.Upload(o.block, o.initial)
		}
	}
}

// results returns the bytes of every operand, guards excluded, after checking
// that guards and inputs are what they were.
func (f *fixture) results() ([][]byte, error) {
	all := make([][]byte, len(f.operands))
	for i, o := range f.operands {
		data := make([]byte, o.block.Bytes())
		f.dev.Download(data, o.block)
		if err := f.dev.Sync(); err != nil {
			return nil, err
		}
		lo := o.block.Cols * o.block.Type.Size()
		hi := len(data) - lo
		if !bytes.Equal(data[:lo], o.initial[:lo]) || !bytes.Equal(data[hi:], o.initial[hi:]) {
			return nil, fmt.Errorf("memory before or after %s is written", o.name)
		}
		if !o.written && !bytes.Equal(data, o.initial) {
			return nil, fmt.Errorf("%s, which is only read, is written", o.name)
		}
		all[i] = data[lo:hi]
	}
	return all, nil
}

// free frees everything.
func (f *fixture) free() {
	for _, o := range f.operands {
		f.dev.Free(o.block)
	}
	for _, m := range f.matrices {
		f.dev.FreeEXL2(m)
	}
	for _, c := range f.caches {
		f.dev.FreeCache(c)
	}
}

// verify runs a case on the reference and on a device and returns the first
// difference.
func verify(ref, d device.Device, c testCase) error {
	expected := &fixture{dev: ref, round: d.Activation()}
	call := c.build(expected)
	call(ref)
	want, err := expected.results()
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	f := &fixture{dev: d, round: d.Activation()}
	defer f.free()
	call = c.build(f)
	call(d)
	got, err := f.results()
	if err != nil {
		return err
	}
	for i, o := range f.operands {
		if o.written {
			if err := c.limit.compare(o.name, o.tensor, got[i], expected.operands[i].tensor.Type, want[i]); err != nil {
				return err
			}
		}
	}
	return verifyRecorded(f, got, func() { call(d) })
}

// verifyRecorded checks that a recording does what the call has done.
func verifyRecorded(f *fixture, want [][]byte, call func()) error {
	f.reset()
	replay, err := f.dev.Record(call)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	for i, moment := range []string{"while recorded", "replayed", "replayed again"} {
		if i > 0 {
			f.reset()
			replay()
		}
		got, err := f.results()
		if err != nil {
			return fmt.Errorf("%s: %w", moment, err)
		}
		for j, o := range f.operands {
			if !bytes.Equal(got[j], want[j]) {
				return fmt.Errorf("%s: %s differs from what the call gives", moment, o.name)
			}
		}
	}
	return nil
}
