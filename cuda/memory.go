package cuda

import (
	"fmt"
	"unsafe"

	"exl2/internal/machine"
	"exl2/internal/tensor"
)

// A pointer is an address in a GPU's memory.
type pointer uint64

// memory is a block of a GPU's memory.
type memory struct {
	owner *Device
	at    pointer // 0 once it is freed, or if there was none
	size  int
	host  []byte // the same bytes, if it is host memory that kernels can reach
}

// Len returns the number of bytes.
func (m *memory) Len() int { return m.size }

// Alloc returns zeroed memory. If there is none left, the failure says how much
// was asked for and how much there is.
func (d *Device) Alloc(t tensor.Type, rows, cols int) tensor.Tensor {
	d.forbidWhileRecording("Alloc")
	m := &memory{owner: d, size: rows * cols * t.Size()}
	out := tensor.New(t, rows, cols, m)
	if d.err != nil {
		return out
	}
	n := uintptr(max(m.size, 1))
	if at, r := d.allocate(n); r == outOfMemory {
		d.failWith("%s", d.outOfMemory(out))
	} else if r != success {
		d.fail("Alloc", r)
	} else {
		m.at = at
		d.live[m] = true
		d.do("Alloc", cuMemsetD8Async, uintptr(m.at), 0, n, d.stream)
	}
	return out
}

// outOfMemory says what memory was asked for, what there is, and the remedy.
func (d *Device) outOfMemory(t tensor.Tensor) string {
	free, total := d.MemInfo()
	text := fmt.Sprintf("out of memory: %v takes %s, %s of %s are free on %s", t, machine.Size(t.Bytes()), machine.Size(free), machine.Size(total), d.name)
	if d.Remedy != "" {
		text += "; " + d.Remedy
	}
	return text
}

// Free frees memory once the operations issued so far are done with it. A
// recording that uses it must not be replayed any more.
func (d *Device) Free(t tensor.Tensor) {
	d.forbidWhileRecording("Free")
	if t.Nil() || d.err != nil {
		return
	}
	m := d.own("Free", t)
	if d.tables.has(m) {
		return
	}
	if d.tape != nil {
		d.tape.kept = append(d.tape.kept, t)
		return
	}
	d.drop(m)
	delete(d.live, m)
	m.at, m.host = 0, nil
}

// drop gives memory back to where it is from.
func (d *Device) drop(m *memory) {
	if m.host != nil {
		d.try(cuStreamSynchronize, d.stream)
		d.try(cuMemFreeHost, uintptr(m.at))
		return
	}
	d.release(m.at)
}

// AllocHost returns zeroed host memory that is page-locked, if there is so much. With
// unified addressing, which every GPU has that kernels are compiled for, it has one
// address for the host and for the GPU.
func (d *Device) AllocHost(t tensor.Type, rows, cols int) (tensor.Tensor, bool) {
	d.forbidWhileRecording("AllocHost")
	n := rows * cols * t.Size()
	var host unsafe.Pointer
	if n == 0 || d.err != nil || d.try(cuMemHostAlloc, uintptr(unsafe.Pointer(&host)), uintptr(n), hostPortable) != success {
		return tensor.Tensor{}, false
	}
	m := &memory{owner: d, size: n, at: pointer(uintptr(host)), host: unsafe.Slice((*byte)(host), n)}
	d.live[m] = true
	clear(m.host)
	return tensor.New(t, rows, cols, m), true
}

// Clear sets all elements to zero.
func (d *Device) Clear(t tensor.Tensor) {
	if t.Dense() {
		t = t.Reshape(min(t.Rows, 1), t.Rows*t.Cols)
	}
	for r := range t.Rows {
		row := t.Slice(r, r+1)
		if n := row.Bytes(); n > 0 {
			d.do("Clear", cuMemsetD8Async, d.address("Clear", row), 0, uintptr(n), d.stream)
		}
	}
}

// MemInfo returns the bytes of memory that are free, or kept and to be had, and of all.
func (d *Device) MemInfo() (free, total int) {
	d.try(cuMemGetInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return free + d.idle() + d.Kept(), total
}

// own returns the memory of a tensor of this device.
func (d *Device) own(op string, t tensor.Tensor) *memory {
	m, ok := t.Mem.(*memory)
	if !ok || m.owner != d {
		panic(fmt.Sprintf("cuda: %s: %v is not in this device's memory", op, t))
	}
	if m.at == 0 && d.err == nil {
		panic(fmt.Sprintf("cuda: %s: %v is freed", op, t))
	}
	return m
}

// address returns where a tensor of this device begins.
func (d *Device) address(op string, t tensor.Tensor) uintptr {
	m := d.own(op, t)
	if end := max(t.Rows-1, 0)*t.Stride + t.Cols; t.Off < 0 || t.Off+end*t.Type.Size() > m.size {
		panic(fmt.Sprintf("cuda: %s: %v at byte %d of %d", op, t, t.Off, m.size))
	}
	return uintptr(m.at) + uintptr(t.Off)
}

// hostPortable is a flag of cuMemHostAlloc: page-locked for all contexts.
const hostPortable = 1

// pinned allocates host memory that the GPU reaches at the returned address; it
// lives as long as the device.
func (d *Device) pinned(n int) ([]byte, pointer) {
	var host unsafe.Pointer
	if !d.do("open", cuMemHostAlloc, uintptr(unsafe.Pointer(&host)), uintptr(n), hostPortable) {
		return nil, 0
	}
	d.onClose(func() { d.try(cuMemFreeHost, uintptr(host)) })
	return unsafe.Slice((*byte)(host), n), pointer(uintptr(host))
}
