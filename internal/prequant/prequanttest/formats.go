package prequanttest

import (
	"encoding/binary"

	"exl2/internal/half"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// bitfield is words of 32 bits.
type bitfield []uint32

// put sets bits from a place on.
func (f bitfield) put(at, bits int, v uint8) {
	for i := range bits {
		if v>>i&1 != 0 {
			f[(at+i)/32] |= 1 << ((at + i) % 32)
		}
	}
}

func words(name string, rows, cols int, v []uint32) safetensors.Tensor {
	return named(name, "I32", []int{rows, cols}, tensor.BytesOf(v))
}

func named(name, dtype string, shape []int, data []byte) safetensors.Tensor {
	return safetensors.Tensor{Info: safetensors.Info{Name: name, DType: dtype, Shape: shape}, Data: data}
}

// down packs codes [rows, cols] down the columns.
func down(codes []uint8, rows, cols, bits int) []uint32 {
	out := make([]uint32, rows*bits/32*cols)
	for c := range cols {
		column := make(bitfield, rows*bits/32)
		for r := range rows {
			column.put(r*bits, bits, codes[r*cols+c])
		}
		for i, w := range column {
			out[i*cols+c] = w
		}
	}
	return out
}

// along packs codes [rows, cols] along the rows.
func along(codes []uint8, rows, cols, bits int) []uint32 {
	f := make(bitfield, rows*cols*bits/32)
	for i, c := range codes {
		f.put(i*bits, bits, c)
	}
	return f
}

// GPTQ returns the tensors that AutoGPTQ writes, of version 1, in which zeros are
// one less, or 2.
func (c *Codes) GPTQ(module string, version int) []safetensors.Tensor {
	zeros := make([]uint8, len(c.Zeros))
	for i, z := range c.Zeros {
		zeros[i] = (z + uint8(version) - 2) & (1<<c.Bits - 1)
	}
	return []safetensors.Tensor{
		words(module+".qweight", c.In*c.Bits/32, c.Out, down(c.Codes, c.In, c.Out, c.Bits)),
		words(module+".qzeros", c.Groups, c.Out*c.Bits/32, along(zeros, c.Groups, c.Out, c.Bits)),
		named(module+".scales", "F16", []int{c.Groups, c.Out}, tensor.BytesOf(c.Scales)),
		named(module+".g_idx", "I32", []int{c.In}, tensor.BytesOf(c.Group)),
	}
}

// GPTQModel returns what GPTQModel writes as version 1: it subtracts a constant from
// every word of zeros.
func (c *Codes) GPTQModel(module string) []safetensors.Tensor {
	less := map[int][]uint32{
		2: {0b01010101010101010101010101010101}, 4: {0b00010001000100010001000100010001}, 8: {0b00000001000000010000000100000001},
		3: {0b00100100100100100100100100100100, 0b10010010010010010010010010010010, 0b01001001001001001001001001001001},
	}[c.Bits]
	list, width := c.GPTQ(module, 2), c.Out*c.Bits/32
	zeros := along(c.Zeros, c.Groups, c.Out, c.Bits)
	for i := range zeros {
		zeros[i] -= less[i%width%len(less)]
	}
	list[1] = words(module+".qzeros", c.Groups, width, zeros)
	return list
}

// AWQ returns the tensors that AutoAWQ writes, version "gemm".
func (c *Codes) AWQ(module string) []safetensors.Tensor {
	order := [8]int{0, 2, 4, 6, 1, 3, 5, 7} // of the columns in a word
	mixed := func(v []uint8) []uint8 {
		out := make([]uint8, len(v))
		for i := range out {
			out[i] = v[i/8*8+order[i%8]]
		}
		return out
	}
	return []safetensors.Tensor{
		words(module+".qweight", c.In, c.Out/8, along(mixed(c.Codes), c.In, c.Out, 4)),
		words(module+".qzeros", c.Groups, c.Out/8, along(mixed(c.Zeros), c.Groups, c.Out, 4)),
		named(module+".scales", "F16", []int{c.Groups, c.Out}, tensor.BytesOf(c.Scales)),
	}
}

// PackQuantized returns the tensors that compressed-tensors writes in its format
// pack-quantized.
func (c *Codes) PackQuantized(module string, symmetric, ordered bool) []safetensors.Tensor {
	codes, scales := make([]uint8, len(c.Codes)), make([]half.F16, len(c.Scales))
	for i := range c.In {
		for o := range c.Out {
			codes[o*c.In+i] = c.Codes[i*c.Out+o]
		}
	}
	for g := range c.Groups {
		for o := range c.Out {
			scales[o*c.Groups+g] = c.Scales[g*c.Out+o]
		}
	}
	shape := binary.LittleEndian.AppendUint64(nil, uint64(c.Out))
	list := []safetensors.Tensor{
		words(module+".weight_packed", c.Out, c.In*c.Bits/32, along(codes, c.Out, c.In, c.Bits)),
		named(module+".weight_scale", "F16", []int{c.Out, c.Groups}, tensor.BytesOf(scales)),
		named(module+".weight_shape", "I64", []int{2}, binary.LittleEndian.AppendUint64(shape, uint64(c.In))),
	}
	if !symmetric {
		turned := make([]uint8, len(c.Zeros)) // [Out, Groups]
		for i, z := range c.Zeros {
			turned[i%c.Out*c.Groups+i/c.Out] = z
		}
		list = append(list, words(module+".weight_zero_point", c.Out*c.Bits/32, c.Groups, down(turned, c.Out, c.Groups, c.Bits)))
	}
	if ordered {
		list = append(list, named(module+".weight_g_idx", "I32", []int{c.In}, tensor.BytesOf(c.Group)))
	}
	return list
}
