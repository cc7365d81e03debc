package convert

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"

	"exl2/internal/half"
	"exl2/internal/safetensors"
)

// A witness hands out the source's tensors. What it reads first it notes, and
// refuses numbers that cannot be converted; what it reads again it compares.
// Tensors are read, not mapped: a file that is changed or cut meanwhile is an
// error and nothing worse.
type witness struct {
	files *safetensors.Set
	sums  map[string]string // by tensor: XXH3, 128 bits
}

// Has reports whether the source has a tensor.
func (w *witness) Has(name string) bool { return w.files.Has(name) }

// Info returns what a tensor's header says.
func (w *witness) Info(name string) (safetensors.Info, bool) { return w.files.Info(name) }

// Names returns the names of the source's tensors.
func (w *witness) Names() []string { return w.files.Names() }

// Get reads a tensor.
func (w *witness) Get(name string) (safetensors.Tensor, error) {
	info, ok := w.files.Info(name)
	if !ok {
		return w.files.Get(name) // which has the words for that
	}
	n, err := info.Bytes()
	if err != nil {
		return safetensors.Tensor{}, err
	}
	t := safetensors.Tensor{Info: info, Data: make([]byte, n)}
	if err := w.files.ReadInto(t.Data, name); err != nil {
		return t, err
	}
	sum := sumOf(t)
	if before, ok := w.sums[name]; ok {
		if sum != before {
			err = fmt.Errorf("%w: %s: the weights are not what they were when the job began; %s", ErrRefused, name, asItWas)
		}
		return t, err
	}
	w.sums[name] = sum
	return t, holdable(t)
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
	for i := 0; i+2 <= len(data); i += 2 {
		if binary.LittleEndian.Uint16(data[i:])&0x7fff >= limit {
			return i / 2
		}
	}
	return -1
}

// first32 is first16 for elements of four bytes.
func first32(data []byte, limit uint32) int {
	for i := 0; i+4 <= len(data); i += 4 {
		if binary.LittleEndian.Uint32(data[i:])&0x7fffffff >= limit {
			return i / 4
		}
	}
	return -1
}
