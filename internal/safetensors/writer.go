package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"exl2/internal/atomicfile"
	"exl2/internal/mapped"
)

// A Writer makes one file. Its tensors are declared beforehand, so that the
// header stands before any data is known; their data may then come in any
// order, each tensor whole and once.
type Writer struct {
	path   string
	file   *atomicfile.File
	start  int64
	places map[string]place

	mu      sync.Mutex
	pending int   // tensors that are not written
	err     error // of a failed write
}

// A place is where the data of a declared tensor goes.
type place struct {
	begin, end int64
	written    bool
}

// Create starts a file, which appears at path when Commit is called. The same
// declarations give the same header. Data is laid out by falling size of the
// element type and then in the order of declaration, so that every tensor
// begins at a multiple of its element's size, which readers that map the file
// rely on. The metadata is {"format": "pt"}, as loaders of models expect.
func Create(path string, tensors []Info) (*Writer, error) {
	places, order, err := layOut(tensors)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text := headerText(tensors, places, order)
	if len(text)-8 > maxHeader {
		return nil, fmt.Errorf("%s: %d tensors need a header of %d bytes, the format allows %d", path, len(tensors), len(text)-8, maxHeader)
	}
	file, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(text); err != nil {
		file.Abort()
		return nil, err
	}
	return &Writer{path: path, file: file, start: int64(len(text)), places: places, pending: len(tensors)}, nil
}

// layOut checks the declarations and gives each tensor its place. order has
// the indexes of the tensors in the order of their data.
func layOut(tensors []Info) (places map[string]place, order []int, err error) {
	places = make(map[string]place, len(tensors))
	order = make([]int, len(tensors))
	sizes := make([]int64, len(tensors))
	for i, t := range tensors {
		order[i] = i
		if err := checkName(t.Name); err != nil {
			return nil, nil, err
		}
		if _, twice := places[t.Name]; twice {
			return nil, nil, fmt.Errorf("tensor %s is declared twice", quote(t.Name))
		}
		if sizes[i], err = t.Bytes(); err != nil {
			return nil, nil, fmt.Errorf("tensor %s: %w", quote(t.Name), err)
		}
		places[t.Name] = place{}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return elementBits[tensors[b].DType] - elementBits[tensors[a].DType]
	})
	at := int64(0)
	for _, i := range order {
		end := at + sizes[i]
		if end < at {
			return nil, nil, fmt.Errorf("tensor %s: the file would be too large", quote(tensors[i].Name))
		}
		places[tensors[i].Name] = place{begin: at, end: end}
		at = end
	}
	return places, order, nil
}

// headerText returns the length and the JSON of a header, padded with spaces
// so that the data begins at a multiple of eight.
func headerText(tensors []Info, places map[string]place, order []int) []byte {
	text := make([]byte, 8, 8+128*len(tensors))
	text = append(text, `{"__metadata__":{"format":"pt"}`...)
	for _, i := range order {
		t := tensors[i]
		text = append(text, ',')
		text = appendString(text, t.Name)
		text = append(text, `:{"dtype":"`...)
		text = append(text, t.DType...)
		text = append(text, `","shape":[`...)
		for k, n := range t.Shape {
			if k > 0 {
				text = append(text, ',')
			}
			text = strconv.AppendInt(text, int64(n), 10)
		}
		p := places[t.Name]
		text = fmt.Appendf(text, `],"data_offsets":[%d,%d]}`, p.begin, p.end)
	}
	text = append(text, '}')
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	binary.LittleEndian.PutUint64(text, uint64(len(text)-8))
	return text
}

// appendString appends the JSON literal of a name.
func appendString(text []byte, name string) []byte {
	var literal bytes.Buffer
	e := json.NewEncoder(&literal)
	e.SetEscapeHTML(false)
	if err := e.Encode(name); err != nil {
		panic("safetensors: a string cannot be encoded: " + err.Error())
	}
	return append(text, bytes.TrimSuffix(literal.Bytes(), []byte("\n"))...)
}

// Write puts the data of a declared tensor in its place. A name that was not
// declared or is written already, and data of another length, panic. Several may be
// written at once.
func (w *Writer) Write(name string, data []byte) error {
	p := w.claim(name, len(data))
	_, err := w.file.WriteAt(data, w.start+p.begin)
	if err != nil {
		if truncated := mapped.Check(data); truncated != nil {
			err = truncated // of another file, which data is mapped from
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.err = err
		return err
	}
	w.pending--
	return nil
}

// claim returns the place of a tensor of n bytes, which is then taken.
func (w *Writer) claim(name string, n int) place {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.places[name]
	switch {
	case !ok:
		panic(fmt.Sprintf("safetensors: Write: %q was not declared", name))
	case p.written:
		panic(fmt.Sprintf("safetensors: Write: %q is written already", name))
	case int64(n) != p.end-p.begin:
		panic(fmt.Sprintf("safetensors: Write: %q has %d bytes, want %d", name, n, p.end-p.begin))
	}
	p.written = true
	w.places[name] = p
	return p
}

// Commit makes the file appear, complete and durable. It panics if a declared
// tensor was forgotten; if a write failed it returns that error.
func (w *Writer) Commit() error {
	if w.err == nil && w.pending > 0 {
		w.file.Abort()
		panic(fmt.Sprintf("safetensors: Commit: %s: %d of %d tensors were not written", w.path, w.pending, len(w.places)))
	}
	return w.file.Commit()
}

// OnComplete has Commit call f before the file appears; see
// [atomicfile.File.OnComplete].
func (w *Writer) OnComplete(call func(content *os.File, durable func() error) error) {
	w.file.OnComplete(call)
}

// Abort drops the file; after Commit it does nothing, so it can be deferred.
func (w *Writer) Abort() { w.file.Abort() }
