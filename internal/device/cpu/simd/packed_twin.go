package simd

import (
	"exl2/internal/exl2"
	"exl2/internal/half"
)

// decode stores the weights of a column in dst.
func (r *region) decode(dst []float32, c int) {
	size, quad := lanes*r.bits, c/abreast*abreast
	scales, codes := r.quadScales(quad)[c%abreast:], r.quadCodes(quad)[c%abreast*size:]
	var chunk [chunkRows]uint8
	for at := 0; at < len(dst); at += r.unit {
		if at%chunkRows == 0 {
			r.unpackChunk(&chunk, codes[at/chunkRows*abreast*size:][:size])
		}
		unit := at / r.unit
		scale := half.ToF16(r.values[unit*16+int(scales[unit*abreast])])
		rows := dst[at:min(at+r.unit, len(dst))]
		decodeUnit(rows, chunk[at%chunkRows:], r.bits, scale)
	}
}

// unpackChunk stores the codes of the rows of a chunk.
func (r *region) unpackChunk(codes *[chunkRows]uint8, chunk []byte) {
	low, high := planes(r.bits)
	first, rest := chunk[:lanes*low], chunk[lanes*low:]
	for l := range lanes {
		w := getBytes(first[l*low:], low) | getBytes(rest[l*high:], high)<<(8*low)
		for row := l; row < chunkRows; row += lanes {
			codes[row] = uint8(w & (1<<r.bits - 1))
			w >>= r.bits
		}
	}
}

// decodeUnit stores the weights of codes with one scale. There are few codes of
// few bits, so their weights are tabulated.
func decodeUnit(dst []float32, codes []uint8, bits int, scale half.F16) {
	if bits > 4 {
		zero, s := 1<<(bits-1), scale.Float32()
		for i := range dst {
			dst[i] = f16(float32(int(codes[i])-zero) * s)
		}
		return
	}
	var table [16]float32
	for code := range 1 << bits {
		table[code] = exl2.Value(uint8(code), bits, scale).Float32()
	}
	for i := range dst {
		dst[i] = table[codes[i]&15]
	}
}

// dotLanes returns the product of w and x in as many lanes as the assembly.
func dotLanes(w, x []float32) float32 {
	var sum [lanes]float32
	for ; len(w) >= lanes && len(x) >= lanes; w, x = w[lanes:], x[lanes:] {
		for l := range sum {
			sum[l] += w[l] * x[l]
		}
	}
	for h := lanes / 2; h > 0; h /= 2 {
		for l := range h {
			sum[l] += sum[l+h]
		}
	}
	return sum[0]
}
