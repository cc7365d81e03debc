package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Rows of x up to which an EXL2 product reads packed weights, eight at a time;
// for more, the weights are decoded first.
const packedRows = 32

// Rows of x that qgemm multiplies faster than both the kernel of few rows, and
// decoding the weights for cuBLAS; our own dense product it always beats
// (docs/performance.md).
const (
	fewPackedRows = 8
	qgemmRows     = 128
)

// QMatMul is y = x·W + bias.
func (d *Device) QMatMul(y, x tensor.Tensor, w device.Matrix, bias tensor.Tensor) {
	want(y.Rows == x.Rows && y.Cols == w.Out() && x.Cols == w.In() && (bias.Nil() || bias.Cols == y.Cols), "QMatMul", y, x, bias)
	if x.Rows == 0 {
		return
	}
	if a, ok := w.(*affineMatrix); ok {
		a.multiply(d, y, x, bias)
		return
	}
	m := w.(*matrix)
	if x.Rows > fewPackedRows && (x.Rows <= qgemmRows || d.blas.lib == nil) && d.qgemm(y, x, m, bias) {
		return
	}
	v, step := d.packing(m)
	if x.Rows > packedRows || step == 0 {
		d.decodedProduct(y, x, m, bias)
		return
	}
	x = d.aligned(x)
	parts := pieces(x.Rows, step)
	for i := range parts {
		lo, hi := i*x.Rows/parts, (i+1)*x.Rows/parts
		d.packedProduct(y.Slice(lo, hi), x.Slice(lo, hi), m, bias, v)
	}
}

// aligned returns x with rows that begin at 16 bytes, in workspace if need be.
func (d *Device) aligned(x tensor.Tensor) tensor.Tensor {
	if atSixteenBytes(x) {
		return x
	}
	xs := d.scratch(scratchInputs, tensor.F16, x.Rows, x.Cols)
	d.Copy(xs, x)
	return xs
}

// atSixteenBytes reports whether every row of x, F16, begins at 16 bytes.
func atSixteenBytes(x tensor.Tensor) bool {
	return x.Off%16 == 0 && (x.Rows <= 1 || x.Stride*tensor.F16.Size()%16 == 0)
}

type packedFunc func(d *Device, l launch, y, x, words, scales, units, order, bias, regions tensor.Tensor,
	count, tile, groups, slot, slots, rows, in, out int32, ldy, ldx int64)

// A packing is a variant of the packed product: its kernels, the warps of a block,
// the bytes of shared memory that a warp's units have, and the copies of a row of x
// beside the rows.
type packing struct {
	f16, f32            packedFunc
	warps, ring, copies int
}

var (
	packedFew   = packing{(*Device).qmatmul_few_f16, (*Device).qmatmul_few_f32, qmatmul_few_warps, qmatmul_few_ring, 1}
	packedMany  = packing{(*Device).qmatmul_many_f16, (*Device).qmatmul_many_f32, qmatmul_many_warps, qmatmul_many_ring, 1}
	packedTight = packing{(*Device).qmatmul_tight_f16, (*Device).qmatmul_tight_f32, qmatmul_tight_warps, qmatmul_tight_ring, 0}
)

// packing returns the variant for a matrix, and how many rows of x shared memory
// has room for; none if the product cannot be made.
func (d *Device) packing(m *matrix) (v packing, rows int) {
	if m.order.Nil() {
		return v, 0
	}
	v = packedFew
	if m.padded/exl2_tile_columns > 2*d.sms {
		v = packedMany
	}
	if rows = v.rows(d.shared, m.in); rows == 0 {
		v = packedTight
		rows = v.rows(d.shared, m.in)
	}
	return v, rows
}

// row is the bytes of a row of x in shared memory.
func (v packing) row(in int) int { return tensor.F16.Size() * (in + qmatmul_row_padding) }

// rows returns the rows that there is room for.
func (v packing) rows(shared, in int) int {
	return max(0, min(qmatmul_most, (shared-v.warps*v.ring)/v.row(in)-v.copies))
}

// packedProduct multiplies up to eight rows by packed weights.
func (d *Device) packedProduct(y, x tensor.Tensor, m *matrix, bias tensor.Tensor, v packing) {
	const mostSlots = 7
	l := launch{
		blocks: dim{x: m.padded / exl2_tile_columns}, threads: dim{x: 32 * v.warps},
		shared: v.warps*v.ring + v.row(m.in)*(x.Rows+v.copies),
	}
	product := v.f16
	if y.Type == tensor.F32 {
		product = v.f32
	}
	product(d, l, y, x, m.words, m.scales, m.units, m.order, bias, m.table, int32(len(m.regions)), int32(m.chunks), int32(m.groups),
		int32(m.slot), int32(min(v.ring/m.slot, mostSlots)), int32(x.Rows), int32(m.in), int32(m.out), int64(y.Stride), int64(x.Stride))
}

// decodedBytes is how much of a matrix is decoded at a time.
const decodedBytes = 256 << 20

// decodedProduct decodes columns, in stored order, and multiplies them by rows
// of x in that order.
func (d *Device) decodedProduct(y, x tensor.Tensor, m *matrix, bias tensor.Tensor) {
	step := min(m.out, max(256, decodedBytes/2/m.in&^255))
	xs := d.scratch(scratchInputs, tensor.F16, x.Rows, m.in)
	weights := d.scratch(scratchWeights, tensor.F16, step, m.in)
	d.permute(xs, x, m.perm)
	for lo := 0; lo < m.out; lo += step {
		w := weights.Slice(0, min(step, m.out-lo))
		d.decode(w, m, tensor.Tensor{}, lo)
		d.dense(product{y: y, x: xs, w: w, bias: bias, column: lo})
	}
}
