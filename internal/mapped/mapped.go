// Package mapped maps files into memory. A file that becomes shorter while it
// is mapped takes pages away that the program may touch at any time, on any
// goroutine: [Guard] makes an error of that, which names the file.
package mapped

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// ErrTruncated says that a file has become shorter since it was mapped.
var ErrTruncated = errors.New("the file was truncated while it was being read")

// AfterMap, if not nil, is called with the path of every file that has been
// mapped. It exists for tests that truncate it at this point.
var AfterMap func(path string)

// A File is a mapped file. Its methods may be called concurrently but for
// Close.
type File struct {
	path  string
	file  *os.File
	data  []byte // nil once it is closed
	place span
}

// A span is a range of addresses, which stays known when it is not mapped any
// more: a fault is often looked at when deferred calls have closed the file.
type span struct{ first, end uintptr }

// all are the files whose addresses were not given to another since.
var all struct {
	sync.Mutex
	files []*File
	err   error // the first truncation that Close found
}

// Map maps the first size bytes of an open file, which stays the caller's and
// must not be closed before the File is. The bytes must not be written.
func Map(file *os.File, size int64) (*File, error) {
	data, err := mapFile(file, size)
	if err != nil {
		return nil, err
	}
	f := &File{path: file.Name(), file: file, data: data}
	f.place.first = uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	f.place.end = f.place.first + uintptr(len(data))
	register(f)
	if AfterMap != nil {
		AfterMap(f.path)
	}
	return f, nil
}

// register takes a file in and forgets those whose addresses it has now.
func register(f *File) {
	all.Lock()
	defer all.Unlock()
	kept := all.files[:0]
	for _, other := range all.files {
		if other.place.end <= f.place.first || f.place.end <= other.place.first {
			kept = append(kept, other)
		}
	}
	clear(all.files[len(kept):])
	all.files = append(kept, f)
}

// Bytes returns the file's bytes, which are gone after Close.
func (f *File) Bytes() []byte { return f.data }

// Close unmaps the file. It is an error if the file has become shorter: the
// rest of its last page then read as zeros, which is no fault.
func (f *File) Close() error {
	err := f.check()
	if f.data != nil {
		err = errors.Join(err, unmapFile(f.data))
	}
	all.Lock()
	defer all.Unlock()
	f.data = nil
	if all.err == nil && errors.Is(err, ErrTruncated) {
		all.err = err
	}
	return err
}

// check makes sure that a mapped file still has the bytes that were mapped.
func (f *File) check() error {
	if f.data == nil {
		return nil
	}
	info, err := f.file.Stat()
	if err == nil && info.Size() < int64(len(f.data)) {
		err = f.truncated()
	}
	return err
}

func (f *File) truncated() error { return fmt.Errorf("%s: %w", f.path, ErrTruncated) }

// Check returns an error if data is of a mapped file that has become shorter:
// the operating system, told to write such data to a file, says only that the
// address is bad.
func Check(data []byte) error {
	all.Lock()
	defer all.Unlock()
	if f := find(uintptr(unsafe.Pointer(unsafe.SliceData(data)))); f != nil {
		return f.check()
	}
	return nil
}

// find returns the file that has, or had, an address.
func find(address uintptr) *File {
	for _, f := range all.files {
		if f.place.first <= address && address < f.place.end {
			return f
		}
	}
	return nil
}
