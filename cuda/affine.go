package cuda

import (
	"exl2/internal/affine"
	"exl2/internal/device"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// affineMatrix is an affine.Matrix in a GPU's memory, as kernels/affine.cuh
// describes it.
type affineMatrix struct {
	in, out, bits int
	shift         int // log2 of a group's blocks of 32 rows

	words  tensor.Tensor // I32 [tiles, units·bits·128]
	scales tensor.Tensor // F16 [tiles, groups·32]
	zeros  tensor.Tensor // U8 [tiles, groups·32]
	perm   tensor.Tensor // I32 [1, in]; absent if rows are in order
}

func (m *affineMatrix) In() int  { return m.in }
func (m *affineMatrix) Out() int { return m.out }

// Bytes is what a product reads.
func (m *affineMatrix) Bytes() int {
	return m.words.Bytes() + m.scales.Bytes() + m.zeros.Bytes() + m.perm.Bytes()
}

func (m *affineMatrix) free(d *Device) {
	for _, t := range []tensor.Tensor{m.words, m.scales, m.zeros, m.perm} {
		d.Free(t)
	}
}

// tiles returns the number of tiles of columns.
func (m *affineMatrix) tiles() int { return pieces(m.out, exl2_tile_columns) }

// units returns the number of units of rows.
func (m *affineMatrix) units() int { return pieces(m.in, exl2_unit_blocks*exl2_block_rows) }

// LoadAffine uploads m and arranges its codes.
func (d *Device) LoadAffine(m *affine.Matrix) device.Matrix {
	q := &affineMatrix{in: m.In, out: m.Out, bits: m.Bits}
	if err := m.Check(); err != nil {
		d.failWith("LoadAffine: %w", err)
		return q
	}
	if !m.Fusible() {
		d.failWith("LoadAffine: groups of %v rows, want multiples of %d", m.Rows, affine.Align)
		return q
	}
	shift, groups := m.Regular()
	q.shift = shift
	q.scales = load(d, tensor.F16, q.tiles(), len(groups)*exl2_tile_columns, inTiles(m.Scales, m.Out, groups))
	q.zeros = load(d, tensor.U8, q.tiles(), len(groups)*exl2_tile_columns, inTiles(m.Zeros, m.Out, groups))
	if m.Perm != nil {
		q.perm = load(d, tensor.I32, 1, m.In, m.Perm)
	}
	q.loadWords(d, m)
	return q
}

// loadWords arranges the words as those of an EXL2 matrix of one region.
func (q *affineMatrix) loadWords(d *Device, m *affine.Matrix) {
	padded, chunks := q.tiles()*exl2_tile_columns, q.units()*m.Bits
	file := load(d, tensor.I32, m.In*m.Bits/32, padded, affine.Widened(m.Words, m.Out, padded))
	q.words = d.Alloc(tensor.I32, q.tiles(), chunks*exl2_chunk_words)
	d.arrange(m.Bits, q.words, file, m.In/affine.Align, 0, chunks)
	d.Free(file)
	d.endKernels()
}

// inTiles returns some rows of what columns have, by tiles, as kernels/affine.cuh describes it.
func inTiles[E half.F16 | uint8](v []E, width int, rows []int) []E {
	out := make([]E, 0, pieces(width, exl2_tile_columns)*exl2_tile_columns*len(rows))
	for tile := 0; tile < width; tile += exl2_tile_columns {
		for _, r := range rows {
			var lanes [exl2_tile_columns]E
			for i, e := range v[r*width+tile : r*width+min(tile+exl2_tile_columns, width)] {
				lanes[i%8*4+i/8] = e
			}
			out = append(out, lanes[:]...)
		}
	}
	return out
}

// Rows of x up to which a product reads packed weights.
const affineRows = 32

type affineFunc func(d *Device, l launch, y, wide, x, words, scales, zeros, bias tensor.Tensor, rows, in, out, shift int32, ldy, ldx int64)

// An affineKernel multiplies up to some rows; a block has so many tiles of columns, and warps at most.
type affineKernel struct {
	rows, tiles, warps int
	widths             map[int]affineWidth
}

// affineWidth is the kernel for codes of some bits.
type affineWidth struct {
	multiply affineFunc
	name     kernel
}

var affineKernels = []affineKernel{
	{8, 1, 16, map[int]affineWidth{
		2: {(*Device).affine_qmatmul_8_2, kernel_affine_qmatmul_8_2}, 3: {(*Device).affine_qmatmul_8_3, kernel_affine_qmatmul_8_3},
		4: {(*Device).affine_qmatmul_8_4, kernel_affine_qmatmul_8_4}, 8: {(*Device).affine_qmatmul_8_8, kernel_affine_qmatmul_8_8},
	}},
	{16, 2, affine_qmatmul_more_threads / 32, map[int]affineWidth{
		2: {(*Device).affine_qmatmul_16_2, kernel_affine_qmatmul_16_2}, 3: {(*Device).affine_qmatmul_16_3, kernel_affine_qmatmul_16_3},
		4: {(*Device).affine_qmatmul_16_4, kernel_affine_qmatmul_16_4}, 8: {(*Device).affine_qmatmul_16_8, kernel_affine_qmatmul_16_8},
	}},
	{32, 2, affine_qmatmul_more_threads / 32, map[int]affineWidth{
		2: {(*Device).affine_qmatmul_32_2, kernel_affine_qmatmul_32_2}, 3: {(*Device).affine_qmatmul_32_3, kernel_affine_qmatmul_32_3},
		4: {(*Device).affine_qmatmul_32_4, kernel_affine_qmatmul_32_4}, 8: {(*Device).affine_qmatmul_32_8, kernel_affine_qmatmul_32_8},
	}},
}

// warpBytes returns the shared memory of a warp.
func (k affineKernel) warpBytes(bits int) int {
	return affine_qmatmul_slots * (k.tiles*(bits*affine_qmatmul_chunk_bytes+affine_qmatmul_side_bytes) + k.rows/8*exl2_unit_blocks*affine_qmatmul_chunk_bytes)
}

// fits reports whether there is room for a block.
func (k affineKernel) fits(d *Device, bits, warps int) bool {
	return warps*k.warpBytes(bits) <= d.sharedFor(k.widths[bits].name)
}

// launch returns blocks of as many warps as there is room for, half of them where there
// is more than a block for each multiprocessor, so that several are there at once.
func (k affineKernel) launch(d *Device, m *affineMatrix) launch {
	blocks, warps := pieces(m.tiles(), k.tiles), k.warps
	if blocks > d.sms {
		warps /= 2
	}
	for !k.fits(d, m.bits, warps) {
		warps /= 2
	}
	return launch{blocks: dim{x: blocks}, threads: dim{x: 32 * warps}, shared: warps * k.warpBytes(m.bits)}
}

// kernel returns the kernel for some rows, or, if there are too many, for a part of them. A block has
// a warp for each of its tiles at least.
func (m *affineMatrix) kernel(d *Device, rows int) affineKernel {
	i := 0
	for i+1 < len(affineKernels) && affineKernels[i].rows < rows && affineKernels[i+1].fits(d, m.bits, affineKernels[i+1].tiles) {
		i++
	}
	return affineKernels[i]
}

// multiply is y = x·W + bias.
func (m *affineMatrix) multiply(d *Device, y, x, bias tensor.Tensor) {
	if !m.perm.Nil() {
		xs := d.scratch(scratchInputs, tensor.F16, x.Rows, m.in)
		d.permute(xs, x, m.perm)
		x = xs
	}
	if x.Rows > affineRows {
		m.decodedProduct(d, y, x, bias)
		return
	}
	x = d.aligned(x)
	for lo, hi := 0, 0; lo < x.Rows; lo = hi {
		k := m.kernel(d, x.Rows-lo)
		hi = min(lo+k.rows, x.Rows)
		m.fewRows(d, k, y.Slice(lo, hi), x.Slice(lo, hi), bias)
	}
}

// fewRows is y = x·W + bias of rows that begin at 16 bytes, in stored order.
func (m *affineMatrix) fewRows(d *Device, k affineKernel, y, x, bias tensor.Tensor) {
	narrow, wide := y, tensor.Tensor{}
	if y.Type == tensor.F32 {
		narrow, wide = wide, narrow
	}
	k.widths[m.bits].multiply(d, k.launch(d, m), narrow, wide, x, m.words, m.scales, m.zeros, bias,
		int32(x.Rows), int32(m.in), int32(m.out), int32(m.shift), int64(y.Stride), int64(x.Stride))
}

// decodedProduct decodes columns, in stored order, and multiplies them by rows of x
// in that order.
func (m *affineMatrix) decodedProduct(d *Device, y, x, bias tensor.Tensor) {
	step := min(m.out, max(256, decodedBytes/2/m.in&^255))
	weights := d.scratch(scratchWeights, tensor.F16, step, m.in)
	for lo := 0; lo < m.out; lo += step {
		w := weights.Slice(0, min(step, m.out-lo))
		m.decodeColumns(d, w, tensor.Tensor{}, lo)
		d.dense(product{y: y, x: x, w: w, bias: bias, column: lo})
	}
}

var affineDecodes = map[int]func(d *Device, l launch, dst, words, scales, zeros, perm tensor.Tensor, firstColumn, columns, in, shift int32){
	2: (*Device).affine_decode_2, 3: (*Device).affine_decode_3, 4: (*Device).affine_decode_4, 8: (*Device).affine_decode_8,
}

// decodeColumns stores columns first, a multiple of 32, and on in dst [columns, in];
// in the source's order if perm is m's, in stored order if it is absent.
func (m *affineMatrix) decodeColumns(d *Device, dst, perm tensor.Tensor, first int) {
	l := launch{blocks: dim{x: pieces(dst.Rows, exl2_tile_columns), y: pieces(m.units(), affine_decode_warps)}, threads: dim{x: 32 * affine_decode_warps}}
	affineDecodes[m.bits](d, l, dst, m.words, m.scales, m.zeros, perm, int32(first), int32(dst.Rows), int32(m.in), int32(m.shift))
}
