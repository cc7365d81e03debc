// Package prequanttest writes checkpoints as other programs quantize them, for
// tests: from the formats' descriptions, bit by bit, with nothing of package
// prequant.
package prequanttest

import (
	"math"

	"exl2/internal/exl2"
	"exl2/internal/half"
)

// Codes are a quantized matrix: weight = fp16(scale·(code - zero)).
type Codes struct {
	In, Out, Bits, Groups int

	Codes  []uint8    // [In, Out]
	Group  []int32    // [In]: of each row
	Scales []half.F16 // [Groups, Out]
	Zeros  []uint8    // [Groups, Out]
}

// Weights returns what the codes stand for, [Out, In].
func (c *Codes) Weights() []half.F16 {
	w := make([]half.F16, c.In*c.Out)
	for i := range c.In {
		for o := range c.Out {
			at := int(c.Group[i])*c.Out + o
			w[o*c.In+i] = half.ToF16(c.Scales[at].Float32() * float32(int(c.Codes[i*c.Out+o])-int(c.Zeros[at])))
		}
	}
	return w
}

// Round quantizes a weight, [out, in], by rounding, in groups of so many rows, 0
// for all; symmetric about a zero in the middle or from the least to the largest.
// If ordered, rows belong to groups in an order like that of activations.
func Round(w []float32, out, in, bits, group int, symmetric, ordered bool) Codes {
	if group == 0 {
		group = in
	}
	c := Codes{In: in, Out: out, Bits: bits, Groups: (in + group - 1) / group, Codes: make([]uint8, in*out), Group: make([]int32, in)}
	for i := range in {
		place := i
		if ordered {
			place = i * 37 % in // in is a multiple of 32
		}
		c.Group[i] = int32(place / group)
	}
	most := float64(int(1)<<bits - 1)
	for g := range c.Groups {
		for o := range out {
			lo, hi := c.extent(w, g, o)
			scale, zero := (hi-lo)/most, math.Round(-lo/(hi-lo)*most)
			if symmetric {
				scale, zero = 2*max(hi, -lo)/most, float64(int(1)<<(bits-1))
			}
			c.Scales, c.Zeros = append(c.Scales, half.ToF16(float32(scale))), append(c.Zeros, uint8(zero))
		}
	}
	for i := range in {
		for o := range out {
			at := int(c.Group[i])*out + o
			code := math.Round(float64(w[o*in+i])/float64(c.Scales[at].Float32())) + float64(c.Zeros[at])
			c.Codes[i*out+o] = uint8(min(max(code, 0), most))
		}
	}
	return c
}

// extent returns the least and the largest weight of a column of a group, and zero.
func (c *Codes) extent(w []float32, g, o int) (lo, hi float64) {
	for i := range c.In {
		if int(c.Group[i]) == g {
			lo, hi = min(lo, float64(w[o*c.In+i])), max(hi, float64(w[o*c.In+i]))
		}
	}
	if lo == hi {
		return -1, 1
	}
	return lo, hi
}

// FromEXL2 returns the codes of an EXL2 matrix with one width, of which out columns
// are used: its scales are fp16, and its zero is the middle.
func FromEXL2(m *exl2.Matrix, out int) Codes {
	bits := m.Groups[0].Bits
	c := Codes{In: m.In, Out: out, Bits: bits, Groups: len(m.Groups), Codes: make([]uint8, m.In*out), Group: make([]int32, m.In)}
	perm, row := m.Perm(), make([]uint8, m.Out)
	for g, group := range m.Groups {
		scales := exl2.ScaleTable(m.ScaleMax[g])
		for o := range out {
			c.Scales, c.Zeros = append(c.Scales, scales[m.Scale(g, o)]), append(c.Zeros, 1<<(bits-1))
		}
		for r := group.Row; r < group.Row+group.Rows; r++ {
			m.Codes(row, group, r, 0, m.Out)
			copy(c.Codes[int(perm[r])*out:], row[:out])
			c.Group[perm[r]] = int32(g)
		}
	}
	return c
}
