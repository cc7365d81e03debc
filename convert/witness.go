package convert

import (
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"exl2/internal/safetensors"
)

// A witness hands out the source's tensors. What it reads first it notes, and
// refuses numbers that cannot be converted; what it reads again it compares.
// Tensors are read, not mapped: a file that is changed or cut meanwhile is an
// error and nothing worse.
type witness struct {
	files *safetensors.Set
	*noted
	ahead map[string]*reading // by tensor

	again bool     // memory is used again
	given [][]byte // since the last time
}

// noted is what all witnesses of a source have noted.
type noted struct {
	mu      sync.Mutex
	sums    map[string]string // by tensor: XXH3, 128 bits
	pending sync.WaitGroup    // readings
	spare   [][]byte          // memory to read to
}

// A reading is a tensor that is being read before it is asked for.
type reading struct {
	done   chan struct{}
	tensor safetensors.Tensor
	err    error
}

func newWitness(files *safetensors.Set) *witness {
	return &witness{files: files, noted: &noted{sums: map[string]string{}}, ahead: map[string]*reading{}}
}

// another returns a witness of the same source for another reader.
func (w *witness) another() *witness {
	return &witness{files: w.files, noted: w.noted, ahead: map[string]*reading{}}
}

// Has reports whether the source has a tensor.
func (w *witness) Has(name string) bool { return w.files.Has(name) }

// Names returns the names of the source's tensors.
func (w *witness) Names() []string { return w.files.Names() }

// Info returns what a tensor's header says.
func (w *witness) Info(name string) (safetensors.Info, bool) { return w.files.Info(name) }

// Ahead begins to read tensors that will be asked for, each once; it returns at
// once. Those that the source does not have are left out.
func (w *witness) Ahead(names []string) {
	for _, name := range names {
		if !w.files.Has(name) || w.ahead[name] != nil {
			continue
		}
		r := &reading{done: make(chan struct{})}
		w.ahead[name] = r
		w.pending.Add(1)
		go func() {
			defer w.pending.Done()
			defer close(r.done)
			r.tensor, r.err = w.read(name)
		}()
	}
}

// Get returns a tensor.
func (w *witness) Get(name string) (t safetensors.Tensor, err error) {
	if r := w.ahead[name]; r != nil {
		<-r.done
		delete(w.ahead, name)
		t, err = r.tensor, r.err
	} else {
		t, err = w.read(name)
	}
	if w.again && err == nil {
		w.given = append(w.given, t.Data)
	}
	return t, err
}

// reuse has the memory of tensors that have been got, and which nobody needs, be read to
// again, from now on: a page that is new takes as long as what is read to it.
func (w *witness) reuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare, w.given, w.again = append(w.spare, w.given...), nil, true
}

// release ends that.
func (w *witness) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare, w.given, w.again = nil, nil, false
}

// room returns n bytes, of memory that is there if some fits.
func (w *witness) room(n int) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, b := range w.spare {
		if n <= cap(b) && cap(b)/2 <= n {
			w.spare = slices.Delete(w.spare, i, i+1)
			return b[:n]
		}
	}
	return make([]byte, n)
}

// read reads a tensor and notes it, or compares it.
func (w *witness) read(name string) (safetensors.Tensor, error) {
	info, ok := w.files.Info(name)
	if !ok {
		return w.files.Get(name) // which has the words for that
	}
	n, err := info.Bytes()
	if err != nil {
		return safetensors.Tensor{}, err
	}
	t := safetensors.Tensor{Info: info, Data: w.room(int(n))}
	if err := w.files.ReadInto(t.Data, name); err != nil {
		return t, err
	}
	sum := sumOf(t)
	w.mu.Lock()
	before, known := w.sums[name]
	if !known {
		w.sums[name] = sum
	}
	w.mu.Unlock()
	switch {
	case !known:
		return t, holdable(t)
	case sum != before:
		return t, fmt.Errorf("%w: %s: the weights are not what they were when the job began; %s", ErrRefused, name, asItWas)
	}
	return t, nil
}

// sumOf returns the sum of a tensor's bytes, type and shape.
func sumOf(t safetensors.Tensor) string {
	h := xxh3.New()
	h.Write(t.Data)
	fmt.Fprint(h, t.DType, t.Shape)
	digest := h.Sum128().Bytes()
	return hex.EncodeToString(digest[:])
}
