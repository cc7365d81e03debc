package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"exl2/internal/affine"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// Affine matrices decode to the bit to what they stand for, and multiply as that
// does, within what rounding weights to fp16 changes.
func TestAffine(t *testing.T) {
	for _, c := range []struct {
		in, out, bits int
		rows          []int
		ordered       bool
	}{
		{64, 33, 2, []int{64}, false}, {96, 8, 3, []int{32, 64}, true}, {352, 24, 4, []int{32, 32, 32, 32, 64, 64, 96}, true}, {256, 70, 4, []int{128, 128}, true}, {160, 40, 8, []int{128, 32}, false},
	} {
		m := &affine.Matrix{In: c.in, Out: c.out, Bits: c.bits, Rows: c.rows}
		m.Words = affine.Pack(c.in, c.out, c.bits, func(dst []uint8, r, lo int) {
			for i := range dst {
				dst[i] = uint8((r*31+(lo+i)*17)>>1) & uint8(1<<c.bits-1)
			}
		})
		for i := range len(c.rows) * c.out {
			m.Scales, m.Zeros = append(m.Scales, half.ToF16(0.01+float32(i%5)/100)), append(m.Zeros, uint8(i*7)&uint8(1<<c.bits-1))
		}
		if c.ordered {
			for i := range c.in {
				m.Perm = append(m.Perm, int32(i*37%c.in))
			}
		}
		t.Run(fmt.Sprintf("%dx%d %d bits", c.in, c.out, c.bits), func(t *testing.T) { testAffine(t, m) })
	}
}

func testAffine(t *testing.T, m *affine.Matrix) {
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	w := d.LoadAffine(m)
	dst := d.Alloc(tensor.F16, m.Out, m.In)
	d.Decode(dst, w)
	want := m.Weights()
	if got := elements[half.F16](dst); !slices.Equal(got, want) {
		t.Error("other weights")
	}
	for _, rows := range []int{1, 3, 5} {
		x, y := d.Alloc(tensor.F32, rows, m.In), d.Alloc(tensor.F32, rows, m.Out)
		in := elements[float32](x)
		for i := range in {
			in[i] = float32(math.Sin(float64(i)*0.7) + 0.3)
		}
		d.QMatMul(y, x, w, tensor.Tensor{})
		for i, got := range elements[float32](y) {
			sum, size := 0.0, 0.0
			for k := range m.In {
				v := float64(in[i/m.Out*m.In+k]) * float64(want[i%m.Out*m.In+k].Float32())
				sum, size = sum+v, size+math.Abs(v)
			}
			if math.Abs(float64(got)-sum) > 0x1p-11*size {
				t.Fatalf("%d rows: [%d, %d] is %v, want %v", rows, i/m.Out, i%m.Out, got, sum)
			}
		}
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}
