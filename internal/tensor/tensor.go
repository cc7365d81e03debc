// Package tensor defines the value that every other package passes around: a
// matrix in some device's memory.
package tensor

import (
	"fmt"
	"unsafe"
)

// A Type is an element type.
type Type uint8

// The element types. U8 holds quantized codes, I32 ids and positions, F64 sums.
const (
	F32 Type = iota
	F16
	BF16
	I32
	U8
	F64
)

var types = [...]struct {
	name string
	size int
}{F32: {"F32", 4}, F16: {"F16", 2}, BF16: {"BF16", 2}, I32: {"I32", 4}, U8: {"U8", 1}, F64: {"F64", 8}}

// Size returns the bytes of one element.
func (t Type) Size() int { return types[t].size }

// String returns the type's name in safetensors files.
func (t Type) String() string { return types[t].name }

// Memory is a block of bytes that belongs to the device that allocated it.
type Memory interface{ Len() int }

// A Tensor is a row-major matrix whose rows may lie apart. Heads, experts and
// batches are ranges of its rows or columns, so nothing in this program needs a
// third dimension. A vector is a matrix of one row.
type Tensor struct {
	Type       Type
	Rows, Cols int
	Stride     int // elements from one row's first to the next's; at least Cols
	Mem        Memory
	Off        int // byte offset of element (0, 0) in Mem
}

// New returns a tensor that fills mem from its beginning, without gaps.
func New(t Type, rows, cols int, mem Memory) Tensor {
	return Tensor{Type: t, Rows: rows, Cols: cols, Stride: cols, Mem: mem}
}

// Slice returns rows lo to hi of t, in the same memory.
func (t Tensor) Slice(lo, hi int) Tensor {
	if lo < 0 || hi < lo || hi > t.Rows {
		panic(fmt.Sprintf("tensor: rows %d to %d of %d", lo, hi, t.Rows))
	}
	t.Off += lo * t.Stride * t.Type.Size()
	t.Rows = hi - lo
	return t
}

// Columns returns columns lo to hi of t, in the same memory.
func (t Tensor) Columns(lo, hi int) Tensor {
	if lo < 0 || hi < lo || hi > t.Cols {
		panic(fmt.Sprintf("tensor: columns %d to %d of %d", lo, hi, t.Cols))
	}
	t.Off += lo * t.Type.Size()
	t.Cols = hi - lo
	return t
}

// Dense reports whether the elements of t follow one another without gaps.
func (t Tensor) Dense() bool { return t.Stride == t.Cols || t.Rows <= 1 }

// Reshape returns the first rows·cols elements of t, which has no gaps, as a
// matrix of that shape.
func (t Tensor) Reshape(rows, cols int) Tensor {
	if rows < 0 || cols < 0 || rows*cols > t.Rows*t.Cols || !t.Dense() {
		panic(fmt.Sprintf("tensor: %d x %d out of %v", rows, cols, t))
	}
	t.Rows, t.Cols, t.Stride = rows, cols, cols
	return t
}

// Bytes returns the size of t's elements, without gaps.
func (t Tensor) Bytes() int { return t.Rows * t.Cols * t.Type.Size() }

// Nil reports whether t is the zero Tensor, which stands for "absent".
func (t Tensor) Nil() bool { return t.Mem == nil }

// String describes t's type and shape, for messages.
func (t Tensor) String() string {
	if t.Dense() {
		return fmt.Sprintf("%v %dx%d", t.Type, t.Rows, t.Cols)
	}
	return fmt.Sprintf("%v %dx%d of %d", t.Type, t.Rows, t.Cols, t.Stride)
}

// An Element is what tensors are made of, and what has its layout.
type Element interface {
	~float32 | ~float64 | ~uint16 | ~int32 | ~uint32 | ~uint8
}

// BytesOf returns the bytes of elements, the same memory, as Upload and Download
// take them.
func BytesOf[E Element](v []E) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

// View returns little-endian data as elements: the same memory, unless that is not
// aligned for them.
func View[E Element](data []byte) []E {
	var e E
	size := int(unsafe.Sizeof(e))
	n := len(data) / size
	if n == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(p)%uintptr(size) == 0 {
		return unsafe.Slice((*E)(p), n)
	}
	out := make([]E, n)
	copy(BytesOf(out), data)
	return out
}

// CheckPermutation refuses what is not a permutation of n rows.
func CheckPermutation(p []int32, n int) error {
	if len(p) != n {
		return fmt.Errorf("permutation of %d rows, want %d", len(p), n)
	}
	seen := make([]bool, n)
	for i, to := range p {
		if to < 0 || int(to) >= n || seen[to] {
			return fmt.Errorf("permutation sends row %d to %d, which is taken or out of range", i, to)
		}
		seen[to] = true
	}
	return nil
}
