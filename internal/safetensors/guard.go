package safetensors

import (
	"errors"
	"fmt"
	"runtime/debug"
	"unsafe"
)

// errTruncated says that a file has become shorter than its header promised.
var errTruncated = errors.New("the file was truncated while it was being read")

// Guard calls read, which may touch the Data of tensors of the file, and turns
// the fault of a file that has become shorter into an error. It protects its
// own goroutine only: what read starts needs its own Guard.
func (f *File) Guard(read func() error) error {
	return guard(read, func(address uintptr) *File {
		if f.holds(address) {
			return f
		}
		return nil
	})
}

// guard calls read and returns an error if it faults at an address of a file
// that owner knows. Every other panic goes on.
func guard(read func() error, owner func(address uintptr) *File) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		fault, ok := cause.(interface{ Addr() uintptr })
		if !ok {
			panic(cause)
		}
		f := owner(fault.Addr())
		if f == nil {
			panic(cause)
		}
		err = fmt.Errorf("%s: %w", f.path, errTruncated)
	}()
	return read()
}

// holds tells whether an address lies within the mapped file.
func (f *File) holds(address uintptr) bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	if len(f.mapped) == 0 {
		return false
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(f.mapped)))
	return address >= first && address-first < uintptr(len(f.mapped))
}
