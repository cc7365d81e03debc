package cuda

import "exl2/internal/tensor"

// inverse_strip is the rows of a strip (kernels/inverse.cu), inverse_pitch those of
// its diagonal block in shared memory.
// inverse is the work of InverseFactor: everything that its strips share.
type inverse struct {
	d        *Device
	u, h, ok tensor.Tensor
	damp     float32
	k, width int
	s, t     tensor.Tensor // strips, [128, width]
	x        tensor.Tensor // [128, 128]
	scratch  tensor.Tensor // [128, 129], where shared memory is too little
	ss, xs   planes        // of s and x
	z        planes        // of R and Y, [width, width]
	products tensor.Tensor // two for each strip
}

// InverseFactor stores the upper triangular U with UᵀU = (h + damp·I)⁻¹ in u, and
// whether there is one in ok.
func (d *Device) InverseFactor(u, h tensor.Tensor, damp float32, ok tensor.Tensor) {
	d.inverse(u, h, damp, ok, func(string) {})
}

// inverse is InverseFactor, which tells what it has issued.
func (d *Device) inverse(u, h tensor.Tensor, damp float32, ok tensor.Tensor, issued func(name string)) {
	k := h.Rows
	want(h.Cols == k && u.Rows == k && u.Cols == k && ok.Rows*ok.Cols == 1, "InverseFactor", u, h, ok)
	if k == 0 {
		return
	}
	v := inverse{d: d, u: u, h: h, ok: ok, damp: damp, k: k, width: pieces(k, inverse_strip) * inverse_strip}
	r := d.newRoom(inverseBytes(k))
	defer r.free()
	v.s, v.t = r.take(tensor.F32, inverse_strip, v.width), r.take(tensor.F32, inverse_strip, v.width)
	v.x = r.take(tensor.F32, inverse_strip, inverse_strip)
	v.ss, v.xs, v.z = r.takePlanes(2, inverse_strip, v.width), r.takePlanes(2, inverse_strip, inverse_strip), r.takePlanes(2, v.width, v.width)
	if inverse_strip*inverse_pitch*4 > d.shared-4<<10 {
		v.scratch = r.take(tensor.F32, inverse_strip, inverse_pitch)
	}
	v.products = table(d, v.listProducts())
	defer d.Free(v.products)
	for row := 0; row < v.width; row += inverse_strip {
		v.strip(row, issued)
	}
}

// inverseBytes returns the workspace of InverseFactor.
func inverseBytes(k int) int {
	width := pieces(k, inverse_strip) * inverse_strip
	return 2*padded(inverse_strip*width*4) + 2*padded(inverse_strip*inverse_pitch*4) +
		planesBytes(2, inverse_strip, width) + planesBytes(2, inverse_strip, inverse_strip) + planesBytes(2, width, width)
}

// listProducts lists the two products of every strip.
func (v *inverse) listProducts() (list []productItem) {
	const lifts = 1.0 / (eightLift * eightLift)
	for row := 0; row < v.width; row += inverse_strip {
		s := v.d.at(v.s)
		rest := productItem{from: s, to: s, m0: int32(row), m1: int32(row + inverse_strip), n1: int32(v.width), k1: int32(row), ld: int32(v.width), alpha: -lifts, mode: belowFromN}
		solve := productItem{to: v.d.at(v.t), m1: inverse_strip, n1: int32(v.width), k1: inverse_strip, ld: int32(v.width), alpha: lifts}
		list = append(list, rest.of(v.d, v.z, v.z), solve.of(v.d, v.xs, v.ss))
	}
	return list
}

// strip computes the rows of R, Y and U that a strip makes.
func (v *inverse) strip(row int, issued func(name string)) {
	d, columns := v.d, v.width/inverse_strip
	list := func(i int) pointer { return pointer(d.at(v.products)) + pointer((2*row/inverse_strip+i)*productBytes) }
	d.inverse_strip(grid2(v.width, inverse_strip), v.s, v.ok, v.h, v.damp, int32(row), int32(v.k), int32(v.width))
	issued("strip")
	if row > 0 {
		d.runProducts(list(0), 1, columns, 2, 2)
	}
	issued("product of strips before")
	diagonal := launch{blocks: dim{x: 1}, threads: dim{x: 256}}
	if v.scratch.Nil() {
		diagonal.shared = inverse_strip * inverse_pitch * 4
	}
	d.inverse_diagonal(diagonal, v.x, v.xs.mem, v.ok, from(v.s, row), v.scratch, int32(v.width))
	issued("diagonal")
	d.split(v.ss, v.s, byEight)
	d.runProducts(list(1), 1, columns, 2, 2)
	issued("product by the diagonal")
	d.inverse_store(grid2(v.width, inverse_strip), v.z.mem, v.u, v.ok, v.t, v.x, v.h, v.damp,
		int32(row), int32(v.k), int32(v.width), int32(v.z.tiles), int64(v.z.next))
	issued("store")
}
