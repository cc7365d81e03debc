package devtest

import (
	"encoding/binary"
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

func reference(t testing.TB) device.Device { return CPU(t) }

// The reference passes its own tests.
func TestReference(t *testing.T) { Run(t, reference) }

func TestReferenceQuantize(t *testing.T) { RunQuantize(t, openQuantize) }

func TestReferenceBackward(t *testing.T) {
	RunBackward(t, func(t testing.TB) device.Backward { return CPU(t) })
}

func TestReferenceTrain(t *testing.T) {
	RunTrain(t, func(t testing.TB) device.Train { return CPU(t) })
}

func openQuantize(t testing.TB) device.Quantize { return CPU(t) }

// broken is a device one of whose operations goes wrong.
type broken struct {
	device.Device
	after func(d device.Device, y tensor.Tensor) // is done to the result
	calls int
}

func (b *broken) Cap(x tensor.Tensor, scale, softcap float32) {
	b.Device.Cap(x, scale, softcap)
	b.calls++
	b.after(b.Device, x)
}

// poke adds a little to the element at an offset from the start of y.
func poke(d device.Device, y tensor.Tensor, element int) {
	y.Off += 4 * element
	y.Rows, y.Cols = 1, 1
	x := d.Alloc(tensor.F32, 1, 1)
	d.Upload(x, binary.LittleEndian.AppendUint32(nil, 0x3c000000)) // 2⁻⁷
	d.AddScaled(y, x, 1)
}

// overwrite stores a number at an offset from the start of y.
func overwrite(d device.Device, y tensor.Tensor, element int) {
	y.Off += 4 * element
	y.Rows, y.Cols = 1, 1
	d.Upload(y, []byte{0, 0, 0, 0})
}

// Each kind of mistake is found.
func TestMistakesAreFound(t *testing.T) {
	c := capCases()[2]
	for _, m := range []struct {
		name  string
		after func(b *broken) func(device.Device, tensor.Tensor)
		want  string // in the error
	}{
		{"none", func(*broken) func(device.Device, tensor.Tensor) { return func(device.Device, tensor.Tensor) {} }, ""},
		{"a wrong element", func(*broken) func(device.Device, tensor.Tensor) {
			return func(d device.Device, y tensor.Tensor) { poke(d, y, 17) }
		}, "1 elements of 32000 are off, by 0.00781 at most; [0, 17]"},
		{"a write before", func(*broken) func(device.Device, tensor.Tensor) {
			return func(d device.Device, y tensor.Tensor) { overwrite(d, y, -1) }
		}, "memory around x is written"},
		{"a write after", func(*broken) func(device.Device, tensor.Tensor) {
			return func(d device.Device, y tensor.Tensor) { overwrite(d, y, y.Cols) }
		}, "memory around x is written"},
		{"another result when recorded", func(b *broken) func(device.Device, tensor.Tensor) {
			return func(d device.Device, y tensor.Tensor) {
				if b.calls == 2 {
					poke(d, y, 3)
				}
			}
		}, "while recorded: x differs"},
		{"another result the second time", func(b *broken) func(device.Device, tensor.Tensor) {
			return func(d device.Device, y tensor.Tensor) {
				if b.calls == 4 {
					poke(d, y, 3)
				}
			}
		}, "replayed again: x differs"},
	} {
		b := &broken{Device: CPU(t)}
		b.after = m.after(b)
		err := verify(CPU(t), b, c)
		if m.want == "" && err != nil || m.want != "" && (err == nil || !strings.Contains(err.Error(), m.want)) {
			t.Errorf("%s: %v, want %q", m.name, err, m.want)
		}
	}
}

// Record calls the broken operation, not the one that is inside.
func (b *broken) Record(fn func()) (func(), error) {
	fn()
	return fn, b.Sync()
}

func TestCompare(t *testing.T) {
	row := tensor.New(tensor.F16, 1, 3, nil)
	for _, c := range []struct {
		name      string
		limit     limit
		got, want []float32
		ok        bool
	}{
		{"equal", exact, []float32{1, 2, 3}, []float32{1, 2, 3}, true},
		{"zeros of both signs", exact, []float32{0, 0, 0}, []float32{0, extremes[1], 0}, true},
		{"the reference is rounded", exact, []float32{1, 1, 1}, []float32{1.0001, 1, 1}, true},
		{"NaN for NaN", exact, []float32{nan, 1, 1}, []float32{nan, 1, 1}, true},
		{"NaN for a number", limit{abs: 9, rel: 9, rms: 9}, []float32{nan, 1, 1}, []float32{1, 1, 1}, false},
		{"a number for NaN", limit{abs: 9, rel: 9, rms: 9}, []float32{1, 1, 1}, []float32{nan, 1, 1}, false},
		{"infinity by rounding", exact, []float32{infinity, 1, 1}, []float32{1e9, 1, 1}, true},
		{"a number for infinity", limit{abs: 9, rel: 9, rms: 9}, []float32{65504, 1, 1}, []float32{infinity, 1, 1}, false},
		{"within the absolute limit", limit{abs: 0.1}, []float32{1, 2, 3}, []float32{1.0625, 2, 3}, true},
		{"over the absolute limit", limit{abs: 0.05}, []float32{1, 2, 3}, []float32{1.0625, 2, 3}, false},
		{"within the relative limit", limit{rel: 0.1}, []float32{1, 2, 32}, []float32{1, 2, 30}, true},
		{"over the relative limit", limit{rel: 0.1}, []float32{2, 2, 30}, []float32{1, 2, 30}, false},
		{"within the limit of the mean", limit{rms: 0.1}, []float32{2, 2, 30}, []float32{1, 2, 30}, true},
		{"over the squared error", limit{abs: 1, nmse: 1e-6}, []float32{1, 2, 3}, []float32{1.0625, 2, 3}, false},
	} {
		pack := func(typ tensor.Type, v []float32) []byte { return encode(typ, 3, list(v...)) }
		err := c.limit.compare("y", row, pack(tensor.F16, c.got), tensor.F32, pack(tensor.F32, c.want))
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
