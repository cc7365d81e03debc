package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

func open(t testing.TB) *Device {
	t.Helper()
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Sync(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// grid is a matrix in float64: what the references of these tests compute with.
type grid struct {
	rows, cols int
	v          []float64
}

func newGrid(rows, cols int) grid { return grid{rows, cols, make([]float64, rows*cols)} }

func (g grid) at(i, j int) float64     { return g.v[i*g.cols+j] }
func (g grid) set(i, j int, v float64) { g.v[i*g.cols+j] = v }

// normal returns a matrix of normally distributed float32 values.
func normal(seed uint64, rows, cols int) grid {
	r, g := rand.New(rand.NewPCG(seed, 1)), newGrid(rows, cols)
	for i := range g.v {
		g.v[i] = float64(float32(r.NormFloat64()))
	}
	return g
}

func (g grid) transposed() grid {
	t := newGrid(g.cols, g.rows)
	for i := range g.rows {
		for j := range g.cols {
			t.set(j, i, g.at(i, j))
		}
	}
	return t
}

// times returns g·h.
func (g grid) times(h grid) grid {
	out := newGrid(g.rows, h.cols)
	for i := range g.rows {
		for j := range h.cols {
			sum := 0.0
			for k := range g.cols {
				sum += g.at(i, k) * h.at(k, j)
			}
			out.set(i, j, sum)
		}
	}
	return out
}

// upload stores g on the device as F32.
func upload(d *Device, g grid) tensor.Tensor {
	t := d.Alloc(tensor.F32, g.rows, g.cols)
	for i, v := range g.v {
		elements[float32](t)[i] = float32(v)
	}
	return t
}

// download returns an F32 tensor.
func download(d *Device, t tensor.Tensor) grid {
	bytes, g := make([]byte, t.Bytes()), newGrid(t.Rows, t.Cols)
	d.Download(bytes, t)
	for i := range g.v {
		g.v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:])))
	}
	return g
}

func indexTensor(d *Device, list ...int32) tensor.Tensor {
	t := d.Alloc(tensor.I32, 1, len(list))
	d.Upload(t, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), 4*len(list)))
	return t
}

// near fails the test unless got is want within a tolerance of want's largest
// element.
func near(t *testing.T, got, want grid, tolerance float64) {
	t.Helper()
	if got.rows != want.rows || got.cols != want.cols {
		t.Fatalf("%d x %d, want %d x %d", got.rows, got.cols, want.rows, want.cols)
	}
	largest := 0.0
	for _, v := range want.v {
		largest = max(largest, math.Abs(v))
	}
	for i, v := range want.v {
		if !(math.Abs(got.v[i]-v) <= tolerance*largest) {
			t.Fatalf("element %d, %d is %v, want %v", i/want.cols, i%want.cols, got.v[i], v)
		}
	}
}

// panics fails the test unless f panics.
func panics(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	f()
}

// newCoding allocates the quantized form of w, and uploads w.
func newCoding(d *Device, w grid, groups []exl2.Group) device.Coding {
	return device.Coding{
		W: upload(d, w), Groups: groups, Codes: d.Alloc(tensor.U8, w.rows, w.cols),
		Scales: d.Alloc(tensor.U8, len(groups), w.cols), Largest: d.Alloc(tensor.F16, len(groups), 1),
	}
}

// fill stores codes and scales without meaning.
func fill(c device.Coding, largest float32) {
	codes, scales := elements[uint8](c.Codes), elements[uint8](c.Scales)
	for g, group := range c.Groups {
		for i := group.Row * c.Codes.Cols; i < (group.Row+group.Rows)*c.Codes.Cols; i++ {
			codes[i] = uint8(i*37) & (1<<group.Bits - 1)
		}
		elements[half.F16](c.Largest)[g] = half.ToF16(largest * 4 / float32(int(1)<<group.Bits))
	}
	for i := range scales {
		scales[i] = uint8(i % 16)
	}
}

// scales returns the scale of each column of group g.
func scales(c device.Coding, g int) []float64 {
	n := c.Scales.Cols
	table, list := exl2.ScaleTable(elements[half.F16](c.Largest)[g]), make([]float64, n)
	for i, s := range elements[uint8](c.Scales)[g*n : (g+1)*n] {
		list[i] = float64(table[s].Float32())
	}
	return list
}

// value is what a code stands for in the format: rounded to fp16.
func value(code uint8, bits int, scale float64) float64 {
	return float64(half.ToF16(float32((float64(code) - float64(int(1)<<(bits-1))) * scale)).Float32())
}

// isNearest reports whether a code is one of those whose values are nearest to
// w, or next to it within rounding errors.
func isNearest(code uint8, bits int, w, scale float64) bool {
	zero := float64(int(1) << (bits - 1))
	if scale == 0 {
		return float64(code) == zero
	}
	best := min(max(w/scale, -zero), zero-1)
	return math.Abs(float64(code)-zero-best) <= 0.5+1e-3
}
