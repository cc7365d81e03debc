package cuda

import (
	"unsafe"

	"exl2/internal/tensor"
)

// tables is memory for lists of structs, taken in turn: an upload comes after what has
// read what was there. An operation has a few of them at a time, far fewer than there is
// room for.
type tables struct {
	mem  tensor.Tensor // U8, or absent
	next int
}

// Bytes of tables, and of the largest one that is taken of them.
const tablesBytes, largestTable = 1 << 20, 1 << 15

// table uploads a list of structs. It is to be freed, and on a tape is there for as long.
func table[E any](d *Device, list []E) tensor.Tensor {
	var e E
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(e)))
	var t tensor.Tensor
	if len(data) <= largestTable && d.tape == nil {
		t = d.tables.take(d, len(data))
	} else {
		t = d.reserve(len(data))
	}
	d.Upload(t, data)
	return t
}

func (r *tables) take(d *Device, n int) tensor.Tensor {
	if r.mem.Nil() {
		r.mem = d.reserve(tablesBytes)
	}
	if r.next+padded(n) > tablesBytes {
		r.next = 0
	}
	t := r.mem.Columns(r.next, r.next+n)
	r.next += padded(n)
	return t
}

// has reports whether memory is that of all tables.
func (r *tables) has(m *memory) bool { return r.mem.Mem == m }
