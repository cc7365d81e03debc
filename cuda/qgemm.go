package cuda

import "exl2/internal/tensor"

type qgemmFunc func(d *Device, l launch, y, x, words, scales, units, bias, regions tensor.Tensor,
	count, tile, groups, tiles, slot, slots, steps, rows, out int32, ldy int64)

// A qgemmVariant is a product of packed weights by many rows, on Hopper: its
// kernels, and the rows of x that a block takes.
type qgemmVariant struct {
	f16, f32 qgemmFunc
	name     kernel // of f32, which declares as much as f16
	rows     int
}

var qgemms = []qgemmVariant{
	{(*Device).qgemm_hopper_16_f16, (*Device).qgemm_hopper_16_f32, kernel_qgemm_hopper_16_f32, 16},
	{(*Device).qgemm_hopper_32_f16, (*Device).qgemm_hopper_32_f32, kernel_qgemm_hopper_32_f32, 32},
	{(*Device).qgemm_hopper_64_f16, (*Device).qgemm_hopper_64_f32, kernel_qgemm_hopper_64_f32, 64},
	{(*Device).qgemm_hopper_128_f16, (*Device).qgemm_hopper_128_f32, kernel_qgemm_hopper_128_f32, 128},
}

// loadShuffle makes the order in which qgemm takes x: by units, the last ones of
// regions filled up.
func (m *matrix) loadShuffle(d *Device) {
	if !d.hopper() || m.in > qgemm_order_absent {
		return
	}
	n := m.units128 * 2 * qgemm_order_half_rows
	m.shuffle = d.Alloc(tensor.F16, 1, n)
	d.qgemm_order_make(launch{blocks: dim{x: pieces(n, qgemm_order_threads)}, threads: dim{x: qgemm_order_threads}},
		m.shuffle, m.perm, m.table, int32(len(m.regions)), int32(n))
}

// qgemm multiplies many rows by packed weights, if the GPU can.
func (d *Device) qgemm(y, x tensor.Tensor, m *matrix, bias tensor.Tensor) bool {
	if m.shuffle.Nil() {
		return false
	}
	v := qgemms[len(qgemms)-1]
	for i := len(qgemms) - 2; i >= 0 && x.Rows <= qgemms[i].rows; i-- {
		v = qgemms[i]
	}
	xs := d.ordered(x, m)
	blocks := dim{x: pieces(m.padded, qgemm_columns), y: pieces(x.Rows, v.rows)}
	blocks.z = max(1, min(d.sms/(blocks.x*blocks.y), m.units128/4))
	if blocks.z == 1 {
		d.qgemmInto(y, xs, m, bias, v, x.Rows, blocks)
		return true
	}
	sums := d.scratch(scratchSums, tensor.F32, blocks.z*x.Rows, m.out)
	d.qgemmInto(sums, xs, m, tensor.Tensor{}, v, x.Rows, blocks)
	d.addPartialSums(y.Type)(d, launch{blocks: dim{x: pieces(m.out, gemm_join_columns), y: x.Rows}, threads: dim{x: gemm_join_threads}},
		y, sums, bias, int32(x.Rows), int32(m.out), int32(y.Stride), int32(blocks.z))
	return true
}

// ordered returns x as qgemm takes it, its rows in whole eights.
func (d *Device) ordered(x tensor.Tensor, m *matrix) tensor.Tensor {
	halves, rows8 := 2*m.units128, (x.Rows+7)&^7
	x = d.aligned(x)
	xs := d.scratch(scratchOrdered, tensor.F16, halves*rows8, qgemm_order_half_rows)
	d.qgemm_order_f16(launch{blocks: dim{x: rows8}, threads: dim{x: qgemm_order_threads}, shared: (m.in + 7) / 8 * 16},
		xs, x, m.shuffle, int32(x.Rows), int32(rows8), int32(m.in), int32(halves), int64(x.Stride))
	return xs
}

// qgemmInto stores a product, or the sums of its parts, in y.
func (d *Device) qgemmInto(y, xs tensor.Tensor, m *matrix, bias tensor.Tensor, v qgemmVariant, rows int, blocks dim) {
	const mostSlots, alignment = 8, 1024
	slot := v.rows*4*qgemm_order_half_rows + qgemm_warps*512*m.widest
	slots := min(mostSlots, (d.sharedFor(v.name)-alignment)/slot)
	f := v.f16
	if y.Type == tensor.F32 {
		f = v.f32
	}
	l := launch{blocks: blocks, threads: dim{x: qgemm_threads}, shared: slots*slot + alignment}
	f(d, l, y, xs, m.words, m.scales, m.units, bias, m.table, int32(len(m.regions)), int32(m.chunks), int32(m.groups),
		int32(m.padded/exl2_tile_columns), int32(slot), int32(slots), int32(m.units128), int32(rows), int32(m.out), int64(y.Stride))
}
