package cuda

import (
	"unsafe"

	"exl2/internal/tensor"
)

// unpacking is Unpacking of kernels/unpack.cuh.
type unpacking struct {
	words, scales, units, places, to, rows          uint64
	chunks, groups, count, out, in, first, end, gap int32
}

// unpacking describes that columns lo to hi of m, lo a multiple of 32, are decoded to
// rows of dst; to those that rows says, if it is there.
func (d *Device) unpacking(dst tensor.Tensor, m *matrix, rows tensor.Tensor, lo, hi int) unpacking {
	at := func(t tensor.Tensor) uint64 { return uint64(d.at(t)) }
	to := at(dst) - uint64(lo*m.in*tensor.F16.Size())
	return unpacking{words: at(m.words), scales: at(m.scales), units: at(m.units), places: at(m.unitPlaces), to: to, rows: at(rows),
		chunks: int32(m.chunks), groups: int32(m.groups), count: int32(m.units128), out: int32(hi), in: int32(m.in),
		first: int32(lo / exl2_tile_columns * m.units128), end: int32(pieces(hi, exl2_tile_columns) * m.units128)}
}

// unpack decodes what u says.
func (d *Device) unpack(u unpacking) {
	l := launch{blocks: dim{x: min(unpack_blocks_a_multiprocessor*d.sms, pieces(int(u.end-u.first), unpack_warps))}, threads: dim{x: 32 * unpack_warps}}
	d.unpack_f16(l, unsafe.Slice((*byte)(unsafe.Pointer(&u)), unsafe.Sizeof(u)))
}
