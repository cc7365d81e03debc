package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"

	"exl2/internal/mapped"
	"exl2/internal/parallel"
	"exl2/internal/regular"
)

// A Tensor is a tensor of a file. Data is the file's own memory: it must not
// be written, is gone after Close, and starts at any byte, so that the program
// must not assume the alignment of its type.
type Tensor struct {
	Info
	Data []byte
}

// A File is a file open for reading. All methods but Close may be called
// concurrently.
type File struct {
	path  string
	file  *os.File
	size  int64
	start int64 // of the data: the header's length and 8

	entries  []entry
	places   map[string]int // in entries
	metadata map[string]string

	lock   sync.Mutex
	mapped *mapped.File // the whole file, from the first Get on
}

// Open reads and checks the header of a file. The data is neither read nor
// mapped yet, so that opening a model of a hundred files costs little.
func Open(path string) (*File, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, file: file}
	if err := f.readHeader(); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// foreign says what a file is, by its first bytes, that is no safetensors file: of another kind
// under a wrong name, or what a download got instead; "" if that is not known.
func foreign(begins []byte) string {
	for _, known := range []struct{ magic, what string }{
		{"GGUF", "a GGUF file, which is not read; get the original model"},
		{"PK\x03\x04", "a zip file, as those of PyTorch are: convert the model to safetensors first"},
		{"<!DOCTY", "a web page: the download got no model"},
		{"<!docty", "a web page: the download got no model"},
		{"<html", "a web page: the download got no model"},
	} {
		if bytes.HasPrefix(begins, []byte(known.magic)) {
			return known.what
		}
	}
	return ""
}

func (f *File) readHeader() error {
	stat, err := f.file.Stat()
	if err != nil {
		return err
	}
	f.size = stat.Size()
	var length [8]byte
	if f.size < int64(len(length)) {
		return fmt.Errorf("%d bytes are too few for a safetensors file", f.size)
	}
	if _, err := f.file.ReadAt(length[:], 0); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(length[:])
	f.start = int64(len(length)) + int64(n)
	if n > maxHeader && f.isPointer() {
		return regular.ErrPointer
	}
	if what := foreign(length[:]); n > maxHeader && what != "" {
		return fmt.Errorf("not a safetensors file: %s", what)
	}
	if n > maxHeader {
		return fmt.Errorf("a header of %d bytes is over the format's %d: not a safetensors file", n, maxHeader)
	}
	if f.start > f.size {
		return fmt.Errorf("the header is %d bytes long, the file has %d after its length: truncated", n, f.size-8)
	}
	text := make([]byte, n)
	if _, err := f.file.ReadAt(text, int64(len(length))); err != nil {
		return err
	}
	h, err := parseHeader(text, f.size-f.start)
	if err != nil {
		return err
	}
	f.entries, f.metadata = h.entries, h.metadata
	f.places = make(map[string]int, len(f.entries))
	for i, e := range f.entries {
		f.places[e.Name] = i
	}
	return nil
}

func (f *File) isPointer() bool {
	head := make([]byte, len(regular.PointerHead))
	n, _ := f.file.ReadAt(head, 0) // less is none
	return regular.IsPointer(head[:n])
}

// Path returns the path given to Open.
func (f *File) Path() string { return f.path }

// Names returns the names of the tensors in the order of their data.
func (f *File) Names() []string {
	names := make([]string, len(f.entries))
	for i, e := range f.entries {
		names[i] = e.Name
	}
	return names
}

// Metadata returns a copy of the header's own strings, often just format: pt.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Info returns what the header says of a tensor.
func (f *File) Info(name string) (Info, bool) {
	i, ok := f.places[name]
	if !ok {
		return Info{}, false
	}
	return f.entries[i].Info, true
}

// entry returns the entry of a tensor or an error that says that it is missing.
func (f *File) entry(name string) (entry, error) {
	i, ok := f.places[name]
	if !ok {
		return entry{}, fmt.Errorf("%s: no tensor %s", f.path, quote(name))
	}
	return f.entries[i], nil
}

// Get returns a tensor whose Data is the mapped file: nothing is copied, and
// pages are read from the disk when they are first touched. If the file is
// truncated meanwhile, touching what is gone is a fault that kills the
// program, unless it happens inside [mapped.Guard]; ReadInto has no such danger.
func (f *File) Get(name string) (Tensor, error) {
	e, err := f.entry(name)
	if err != nil {
		return Tensor{}, err
	}
	all, err := f.contents()
	if err != nil {
		return Tensor{}, fmt.Errorf("%s: %w", f.path, err)
	}
	begin, end := f.start+e.begin, f.start+e.end
	return Tensor{Info: e.Info, Data: all[begin:end:end]}, nil
}

// ReadInto copies the bytes of a tensor to dst, which must have their length.
// The file need not be mapped, a truncated file is an ordinary error, and the
// pages do not count as memory of the program.
func (f *File) ReadInto(dst []byte, name string) error {
	e, err := f.entry(name)
	if err != nil {
		return err
	}
	if int64(len(dst)) != e.end-e.begin {
		panic(fmt.Sprintf("safetensors: ReadInto: %q has %d bytes, dst %d", name, e.end-e.begin, len(dst)))
	}
	if err := f.readAt(dst, f.start+e.begin); err != nil {
		return fmt.Errorf("%s: tensor %s: %w", f.path, quote(name), err)
	}
	return nil
}

// readChunk is how many bytes are read at a time: what is in the system's memory comes
// as fast as cores copy it.
const readChunk = 4 << 20

// readAt fills dst with the bytes of the file from one on.
func (f *File) readAt(dst []byte, from int64) error {
	failed := make([]error, (len(dst)+readChunk-1)/readChunk)
	parallel.Runs(len(dst), readChunk, func(lo, hi int) {
		n, err := f.file.ReadAt(dst[lo:hi], from+int64(lo))
		if n < hi-lo {
			failed[lo/readChunk] = err
		}
	})
	for _, err := range failed {
		if errors.Is(err, io.EOF) {
			return mapped.ErrTruncated
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// contents returns the mapped file.
func (f *File) contents() ([]byte, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.mapped == nil {
		all, err := mapped.Map(f.file, f.size)
		if err != nil {
			return nil, err
		}
		f.mapped = all
	}
	return f.mapped.Bytes(), nil
}

// Close unmaps and closes the file. No Data of it may be used afterwards. It is
// an error if the file was truncated while it was mapped.
func (f *File) Close() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	var err error
	if f.mapped != nil {
		err = f.mapped.Close()
		f.mapped = nil
	}
	return errors.Join(err, f.file.Close())
}
