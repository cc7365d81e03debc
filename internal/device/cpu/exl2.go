package cpu

import (
	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// matrix is an EXL2 matrix, packed as the file has it or, in the same number of
// bits, as the vector kernels like it.
type matrix struct {
	*simd.Packed
	out  int // without padding
	perm []int32
}

func (m *matrix) In() int  { return m.Packed.In }
func (m *matrix) Out() int { return m.out }

// Bytes is what a product reads: codes, scales and permutation.
func (m *matrix) Bytes() int { return m.Packed.Bytes() + 4*len(m.perm) }

// LoadEXL2 lays m out for products.
func (d *Device) LoadEXL2(m *exl2.Matrix, out int) device.Matrix { return d.load(m, m.Perm(), out) }

// load copies all of m.
func (d *Device) load(m *exl2.Matrix, perm []int32, out int) *matrix {
	p, err := simd.NewPacked(m)
	if err != nil {
		d.fail("LoadEXL2: %w", err)
		return &matrix{Packed: &simd.Packed{In: m.In, Out: m.Out}, out: out}
	}
	parallel.Runs(m.Out, 128, func(lo, hi int) { p.Fill(m, lo, hi) })
	return &matrix{Packed: p, out: out, perm: perm}
}

// FreeEXL2 leaves the memory to the garbage collector.
func (d *Device) FreeEXL2(device.Matrix) {}

// Columns of an EXL2 matrix that one goroutine takes: multiplied by few rows of
// x, or decoded.
const (
	gemvSet = 64
	qTile   = 192
)

// Up to fewQRows rows of x, weights are decoded in registers for every row.
const fewQRows = 3

// QMatMul is y = x·W + bias on packed weights.
func (d *Device) QMatMul(y, x tensor.Tensor, w device.Matrix, bias tensor.Tensor) {
	want(y.Rows == x.Rows && y.Cols == w.Out() && x.Cols == w.In() && (bias.Nil() || bias.Cols == y.Cols), "QMatMul", y, x, bias)
	if d.Sync() != nil {
		return
	}
	w.(product).multiply(d, rowsOf("QMatMul", y), rowsOf("QMatMul", x), x.Rows)
	addBias(y, bias)
}

// A product is a matrix that can be multiplied by.
type product interface {
	device.Matrix
	// multiply multiplies rows of x.
	multiply(d *Device, y, x strided, rows int)
	// columns multiplies few rows of x, in stored order, by columns lo to hi, at most
	// gemvSet, lo a multiple of 4.
	columns(y strided, x []float32, rows, lo, hi int)
	// order is the original row of every stored row, nil if they are the same.
	order() []int32
	// decode stores the weights, [out, in] in the source's order.
	decode(d *Device, dst tensor.Tensor)
}

func (m *matrix) order() []int32 { return m.perm }

func (m *matrix) multiply(d *Device, y, x strided, rows int) {
	k := m.In()
	in, release := d.borrowed(rows * k)
	defer release()
	permuteRows(in, x, rows, m.perm)
	if rows <= fewQRows {
		m.products(y, in, rows)
		return
	}
	d.widenedProducts(y, strided{in, k, k}, rows, func(dst []float32, lo, hi int) {
		n := wholeQuads(hi - lo)
		m.Decode(dst[:n*k], lo, lo+n)
	})
}

// products multiplies few rows, one at a time, by the packed columns.
func (m *matrix) products(y strided, x []float32, rows int) {
	parallel.Runs(m.out, gemvSet, func(lo, hi int) { m.columns(y, x, rows, lo, hi) })
}

func (m *matrix) columns(y strided, x []float32, rows, lo, hi int) {
	var sums [gemvSet]float32
	k := m.In()
	for r := range rows {
		part := sums[:wholeQuads(hi-lo)]
		clear(part)
		m.Gemv(part, x[r*k:(r+1)*k], lo, lo+len(part))
		copy(y.row(r)[lo:hi], part)
	}
}

// wholeQuads rounds columns up to what the kernels take; padded columns exist.
func wholeQuads(n int) int { return (n + 3) &^ 3 }

// permuteRows stores the columns of x in stored order: dst[r, i] = x[r, perm[i]].
// Without perm they are as they are.
func permuteRows(dst []float32, x strided, rows int, perm []int32) {
	k := x.cols
	parallel.Runs(rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			from, to := x.row(r), dst[r*k:(r+1)*k]
			if perm == nil {
				copy(to, from)
			}
			for i, p := range perm {
				to[i] = from[p]
			}
		}
	})
}

// Decode stores the weights, [out, in] in the source's order, in dst, F16.
func (d *Device) Decode(dst tensor.Tensor, w device.Matrix) {
	want(dst.Type == tensor.F16 && dst.Rows == w.Out() && dst.Cols == w.In(), "Decode", dst)
	if d.Sync() == nil {
		w.(product).decode(d, dst)
	}
}

func (m *matrix) decode(d *Device, dst tensor.Tensor) { m.decodeTo(d, dst, m.perm) }

// DecodeStored stores the weights of w in stored order.
func (d *Device) DecodeStored(dst tensor.Tensor, w device.Matrix) {
	want(dst.Type == tensor.F16 && dst.Rows == w.Out() && dst.Cols == w.In(), "DecodeStored", dst)
	m, order := w.(*matrix), make([]int32, w.In())
	for i := range order {
		order[i] = int32(i)
	}
	if d.Sync() == nil {
		m.decodeTo(d, dst, order)
	}
}

// decodeTo decodes stored rows to the columns of dst that perm says.
func (m *matrix) decodeTo(d *Device, dst tensor.Tensor, perm []int32) {
	out, k := elements[half.F16](dst), m.In()
	parallel.Runs(m.out, qTile, func(lo, hi int) {
		n := wholeQuads(hi - lo)
		buf, release := d.borrowed(k * n)
		defer release()
		m.Packed.Decode(buf, lo, lo+n)
		for c := range hi - lo {
			row := out[(lo+c)*k : (lo+c+1)*k]
			for stored, original := range perm {
				row[original] = half.ToF16(buf[c*k+stored])
			}
		}
	})
}
