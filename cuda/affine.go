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
	in, out, padded, bits int

	words  tensor.Tensor // I32 [in·bits/32, padded]
	scales tensor.Tensor // F16 [groups, padded]
	zeros  tensor.Tensor // U8 [groups, padded]
	group  tensor.Tensor // I32 [1, in/32]
	perm   tensor.Tensor // I32 [1, in]; absent if rows are in order
}

func (m *affineMatrix) In() int  { return m.in }
func (m *affineMatrix) Out() int { return m.out }

// Bytes is what a product reads.
func (m *affineMatrix) Bytes() int {
	return m.words.Bytes() + m.scales.Bytes() + m.zeros.Bytes() + m.group.Bytes() + m.perm.Bytes()
}

func (m *affineMatrix) free(d *Device) {
	for _, t := range []tensor.Tensor{m.words, m.scales, m.zeros, m.group, m.perm} {
		d.Free(t)
	}
}

// LoadAffine uploads m.
func (d *Device) LoadAffine(m *affine.Matrix) device.Matrix {
	q := &affineMatrix{in: m.In, out: m.Out, padded: pieces(m.Out, affine.Align) * affine.Align, bits: m.Bits}
	if err := m.Check(); err != nil {
		d.failWith("LoadAffine: %w", err)
		return q
	}
	if !m.Fusible() {
		d.failWith("LoadAffine: groups of %v rows, want multiples of %d", m.Rows, affine.Align)
		return q
	}
	groups := len(m.Rows)
	q.words = load(d, tensor.I32, m.In*m.Bits/32, q.padded, widened(m.Words, m.Out, q.padded))
	q.scales = load(d, tensor.F16, groups, q.padded, widened(m.Scales, m.Out, q.padded))
	q.zeros = load(d, tensor.U8, groups, q.padded, widened(m.Zeros, m.Out, q.padded))
	q.group = load(d, tensor.I32, 1, m.In/affine.Align, m.BlockGroups())
	if m.Perm != nil {
		q.perm = load(d, tensor.I32, 1, m.In, m.Perm)
	}
	d.Free(d.Alloc(tensor.U8, 1, 1)) // an operation that is no kernel: products read words before they wait for kernels
	return q
}

// widened returns rows of the given width with zeros behind them.
func widened[E uint32 | half.F16 | uint8](v []E, width, to int) []E {
	if width == to {
		return v
	}
	out := make([]E, len(v)/width*to)
	for r := range len(v) / width {
		copy(out[r*to:], v[r*width:(r+1)*width])
	}
	return out
}

// Rows of x up to which a product reads packed weights, eight at a time.
const affineRows = 16

type affineFunc func(d *Device, l launch, y, x, words, scales, zeros, group, perm, bias tensor.Tensor, rows, in, out, padded int32, ldy, ldx int64)

// affineKey is the bits of codes, the type of y, and whether x has one row.
type affineKey struct {
	bits int
	y    tensor.Type
	one  bool
}

var affineProducts = map[affineKey]affineFunc{
	{2, tensor.F16, true}: (*Device).affine_qmatmul_one_2_f16, {2, tensor.F16, false}: (*Device).affine_qmatmul_some_2_f16,
	{3, tensor.F16, true}: (*Device).affine_qmatmul_one_3_f16, {3, tensor.F16, false}: (*Device).affine_qmatmul_some_3_f16,
	{4, tensor.F16, true}: (*Device).affine_qmatmul_one_4_f16, {4, tensor.F16, false}: (*Device).affine_qmatmul_some_4_f16,
	{8, tensor.F16, true}: (*Device).affine_qmatmul_one_8_f16, {8, tensor.F16, false}: (*Device).affine_qmatmul_some_8_f16,
	{2, tensor.F32, true}: (*Device).affine_qmatmul_one_2_f32, {2, tensor.F32, false}: (*Device).affine_qmatmul_some_2_f32,
	{3, tensor.F32, true}: (*Device).affine_qmatmul_one_3_f32, {3, tensor.F32, false}: (*Device).affine_qmatmul_some_3_f32,
	{4, tensor.F32, true}: (*Device).affine_qmatmul_one_4_f32, {4, tensor.F32, false}: (*Device).affine_qmatmul_some_4_f32,
	{8, tensor.F32, true}: (*Device).affine_qmatmul_one_8_f32, {8, tensor.F32, false}: (*Device).affine_qmatmul_some_8_f32,
}

// multiply is y = x·W + bias.
func (m *affineMatrix) multiply(d *Device, y, x, bias tensor.Tensor) {
	if x.Rows > affineRows {
		m.decodedProduct(d, y, x, bias)
		return
	}
	for lo := 0; lo < x.Rows; lo += affine_qmatmul_some_rows {
		rows := min(affine_qmatmul_some_rows, x.Rows-lo)
		yr, xr := y.Slice(lo, lo+rows), x.Slice(lo, lo+rows)
		key, threads := affineKey{m.bits, y.Type, rows == 1}, affine_qmatmul_some_threads
		if rows == 1 {
			threads = affine_qmatmul_one_threads
		}
		l := launch{blocks: dim{x: m.padded / affine_tile_columns}, threads: dim{x: threads}}
		affineProducts[key](d, l, yr, xr, m.words, m.scales, m.zeros, m.group, m.perm, bias,
			int32(rows), int32(m.in), int32(m.out), int32(m.padded), int64(y.Stride), int64(x.Stride))
	}
}

// decodedProduct decodes columns, in stored order, and multiplies them by rows of x
// in that order.
func (m *affineMatrix) decodedProduct(d *Device, y, x, bias tensor.Tensor) {
	step := min(m.out, max(256, decodedBytes/2/m.in&^255))
	if !m.perm.Nil() {
		xs := d.scratch(scratchInputs, tensor.F16, x.Rows, m.in)
		d.permute(xs, x, m.perm)
		x = xs
	}
	weights := d.scratch(scratchWeights, tensor.F16, step, m.in)
	for lo := 0; lo < m.out; lo += step {
		w := weights.Slice(0, min(step, m.out-lo))
		m.decodeColumns(d, w, tensor.Tensor{}, lo)
		d.dense(product{y: y, x: x, w: w, bias: bias, column: lo})
	}
}

var affineDecodes = map[int]func(d *Device, l launch, dst, words, scales, zeros, group, perm tensor.Tensor, firstColumn, columns, in, padded int32){
	2: (*Device).affine_decode_2, 3: (*Device).affine_decode_3, 4: (*Device).affine_decode_4, 8: (*Device).affine_decode_8,
}

// decodeColumns stores columns first, a multiple of 32, and on in dst [columns, in];
// in the source's order if perm is m's, in stored order if it is absent.
func (m *affineMatrix) decodeColumns(d *Device, dst, perm tensor.Tensor, first int) {
	l := launch{blocks: dim{x: pieces(dst.Rows, affine_tile_columns), y: pieces(m.in/affine_block_rows, affine_decode_slices)}, threads: dim{x: affine_decode_threads}}
	affineDecodes[m.bits](d, l, dst, m.words, m.scales, m.zeros, m.group, perm, int32(first), int32(dst.Rows), int32(m.in), int32(m.padded))
}
