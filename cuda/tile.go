package cuda

import (
	"unsafe"

	"exl2/internal/tensor"
)

// A tile is what kernels/tile.cuh copies at a time: rows of 64 halves.
const tileCols = 64

// tileMap returns a description of a matrix, F16, by which tiles of so many rows are
// copied, with the 16-byte chunk c of row r in place c ^ r%8.
func (d *Device) tileMap(of tensor.Tensor, rows int) []byte {
	const float16, twice, swizzle128, promote256, zeros = 6, 2, 3, 3, 0 // CU_TENSOR_MAP_..., and two dimensions
	const alignment = 64
	buf := make([]byte, attend_hopper_map_bytes+alignment)
	at := -uintptr(unsafe.Pointer(&buf[0])) % alignment
	out := buf[at : at+attend_hopper_map_bytes]
	size := [twice]uint64{uint64(of.Cols), uint64(of.Rows)}
	stride := [twice - 1]uint64{uint64(of.Stride * tensor.F16.Size())}
	box, step := [twice]uint32{tileCols, uint32(rows)}, [twice]uint32{1, 1}
	d.do("tiles of a cache", cuTensorMapEncodeTiled, uintptr(unsafe.Pointer(&out[0])), float16, twice, d.address("tiles", of),
		uintptr(unsafe.Pointer(&size)), uintptr(unsafe.Pointer(&stride)), uintptr(unsafe.Pointer(&box)), uintptr(unsafe.Pointer(&step)),
		0, swizzle128, promote256, zeros)
	return out
}
