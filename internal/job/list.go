package job

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"exl2/internal/atomicfile"
	"exl2/internal/regular"
)

// An entry says what a file was when the job wrote it.
type entry struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Sum   string `json:"xxh3"` // XXH3, 128 bits, hexadecimal
}

// sum returns the entry of what can be read, without a name.
func sum(r io.Reader) (entry, error) {
	const chunk = 1 << 20
	h, n := xxh3.New(), int64(0)
	free, full := make(chan []byte, 2), make(chan []byte, 2)
	free <- make([]byte, chunk)
	free <- make([]byte, chunk)
	var failed error
	go func() { // reads ahead
		defer close(full)
		for failed == nil {
			b := (<-free)[:chunk]
			got, err := io.ReadFull(r, b)
			failed = err
			full <- b[:got]
		}
	}()
	for b := range full {
		h.Write(b)
		n += int64(len(b))
		free <- b
	}
	if errors.Is(failed, io.EOF) || errors.Is(failed, io.ErrUnexpectedEOF) {
		failed = nil
	}
	digest := h.Sum128().Bytes()
	return entry{Bytes: n, Sum: hex.EncodeToString(digest[:])}, failed
}

// A list has the entries of all files that a job ever wrote, in the order in
// which it did. An entry is on disk before its file has its name, and stays when
// the file is replaced: after a crash either may be there.
type list struct {
	mu      sync.Mutex // of file and entries
	path    string
	file    *os.File // nil until something is added
	entries []entry
	damage  error // the first line that cannot be read
	known   map[string]known
}

// What is known of the file at a path: its sum, as long as nobody has touched it.
type known struct {
	info fs.FileInfo
	sum  entry
}

// know notes what is at a path.
func (l *list) know(path string, info fs.FileInfo, sum entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]known{}
	}
	l.known[path] = known{info, sum}
}

// sumAt returns the sum of the file at a path, which info is of.
func (l *list) sumAt(path string, info fs.FileInfo) (entry, error) {
	l.mu.Lock()
	k, ok := l.known[path]
	l.mu.Unlock()
	if ok && os.SameFile(k.info, info) && k.info.Size() == info.Size() && k.info.ModTime().Equal(info.ModTime()) {
		return k.sum, nil
	}
	e, err := sumFile(path)
	if err == nil {
		l.know(path, info, e)
	}
	return e, err
}

// open reads the list at path, if it is there. A last line without an end is
// what a crash leaves, and of a file that never got its name.
func (l *list) open(path string) error {
	l.path = path
	data, err := regular.ReadOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		var e entry
		switch err := json.Unmarshal(line, &e); {
		case !whole:
		case err != nil || e.Name == "" || e.Sum == "":
			if l.damage == nil {
				l.damage = fmt.Errorf("line %d is not an entry", n)
			}
		default:
			e.Name = Unescape(e.Name)
			l.entries = append(l.entries, e)
		}
		data = rest
	}
	return nil
}

func (l *list) exists() bool { _, err := os.Stat(l.path); return err == nil }

// add appends an entry, durably.
func (l *list) add(e entry) error {
	written := e
	written.Name = Escape(e.Name)
	line, err := json.Marshal(written)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		if err := l.continued(); err != nil {
			return err
		}
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.entries = append(l.entries, e)
	return nil
}

// continued opens the file for appending behind its last whole line.
func (l *list) continued() error {
	data, err := regular.ReadOwn(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = atomicfile.Write(l.path, nil) // whose folder is durable then, too
	}
	if err != nil {
		return err
	}
	if l.file, err = os.OpenFile(l.path, os.O_RDWR|os.O_APPEND, 0); err != nil {
		return err
	}
	return l.file.Truncate(int64(bytes.LastIndexByte(data, '\n') + 1))
}

// clear forgets all entries.
func (l *list) clear() error {
	l.close()
	l.entries, l.damage = nil, nil
	return atomicfile.Write(l.path, nil)
}

func (l *list) close() {
	if l.file != nil {
		l.file.Close()
	}
	l.file = nil
}

// has reports whether a file of that name was ever written.
func (l *list) has(name string) bool {
	return slices.ContainsFunc(l.all(), func(e entry) bool { return e.Name == name })
}

// all returns the entries so far.
func (l *list) all() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.entries)
}

// wrote reports whether the file at path has bytes that were written under that
// name. No file, a folder, a link or a device have not.
func (l *list) wrote(name, path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	candidate := func(e entry) bool { return e.Name == name && e.Bytes == info.Size() }
	var now *entry
	for _, e := range l.all() {
		if !candidate(e) {
			continue
		}
		if now == nil {
			e, err := l.sumAt(path, info)
			if err != nil {
				return false, err
			}
			now = &e
		}
		if e.Bytes == now.Bytes && e.Sum == now.Sum {
			return true, nil
		}
	}
	return false, nil
}

func sumFile(path string) (entry, error) {
	f, err := regular.Open(path)
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	return sum(f)
}
