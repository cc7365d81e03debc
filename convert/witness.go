package convert

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"exl2/internal/half"
	"exl2/internal/parallel"
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

// holdable refuses floating-point numbers that a finished model, whose weights
// decode to fp16, cannot hold.
func holdable(t safetensors.Tensor) error {
	var i int
	var v float32
	switch t.DType {
	case safetensors.F16:
		if i = first16(t.Data, aboveF16); i >= 0 {
			v = half.F16(binary.LittleEndian.Uint16(t.Data[2*i:])).Float32()
		}
	case safetensors.BF16:
		if i = first16(t.Data, aboveBF16); i >= 0 {
			v = half.BF16(binary.LittleEndian.Uint16(t.Data[2*i:])).Float32()
		}
	case safetensors.F32:
		if i = first32(t.Data, aboveF32); i >= 0 {
			v = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	default:
		return nil
	}
	if i < 0 {
		return nil
	}
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return fmt.Errorf("%s: element %d is NaN or infinite: the source is damaged", t.Name, i)
	}
	return fmt.Errorf("%w: %s: element %d is %v, which fp16, and so EXL2, cannot hold", ErrRefused, t.Name, i, v)
}

// The bits of the least magnitudes above fp16's largest, 65504. Those of
// infinity and NaN are above them.
const (
	aboveF16  = 0x7c00
	aboveBF16 = 0x4780
	aboveF32  = 0x477fe001
)

// first16 returns the index of the first element of two bytes whose magnitude
// has bits of at least limit, or -1.
func first16(data []byte, limit uint16) int {
	const ones = 0x0001000100010001
	return first(data, 2, beyond{0x7fff * ones, uint64(0x8000-limit) * ones, 0x8000 * ones},
		func(e []byte) bool { return binary.LittleEndian.Uint16(e)&0x7fff >= limit })
}

// first32 is first16 for elements of four bytes.
func first32(data []byte, limit uint32) int {
	const ones = 0x0000000100000001
	return first(data, 4, beyond{0x7fffffff * ones, uint64(0x80000000-limit) * ones, 0x80000000 * ones},
		func(e []byte) bool { return binary.LittleEndian.Uint32(e)&0x7fffffff >= limit })
}

// beyond tells of elements side by side whether one's magnitude has bits of at least a
// limit: the sum of magnitude and more then reaches the sign.
type beyond struct{ magnitude, more, sign uint64 }

// within returns how many bytes of data, 32 at a time, have no such element.
func (b beyond) within(data []byte) int {
	n := 0
	for ; n+32 <= len(data); n += 32 {
		p := data[n : n+32 : n+32]
		v := binary.LittleEndian.Uint64(p)&b.magnitude + b.more
		v |= binary.LittleEndian.Uint64(p[8:])&b.magnitude + b.more
		v |= binary.LittleEndian.Uint64(p[16:])&b.magnitude + b.more
		v |= binary.LittleEndian.Uint64(p[24:])&b.magnitude + b.more
		if v&b.sign != 0 {
			break
		}
	}
	return n
}

// first returns the index of the first element of some bytes that is found, or -1.
func first(data []byte, size int, b beyond, found func(element []byte) bool) int {
	const chunk = 1 << 20
	at := make([]int, (len(data)+chunk-1)/chunk)
	parallel.Runs(len(data), chunk, func(lo, hi int) {
		at[lo/chunk] = -1
		for i := lo + b.within(data[lo:hi]); i+size <= hi; i += size {
			if found(data[i : i+size]) {
				at[lo/chunk] = i / size
				return
			}
		}
	})
	for _, i := range at {
		if i >= 0 {
			return i
		}
	}
	return -1
}
