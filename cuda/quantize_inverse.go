package cuda

import "exl2/internal/tensor"

// inverseStrip is the rows of a strip (kernels/inverse.cu), inversePitch those of
// its diagonal block in shared memory.
const (
	inverseStrip = 128
	inversePitch = inverseStrip + 1
)

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
	k := h.Rows
	want(h.Cols == k && u.Rows == k && u.Cols == k && ok.Rows*ok.Cols == 1, "InverseFactor", u, h, ok)
	if k == 0 {
		return
	}
	v := inverse{d: d, u: u, h: h, ok: ok, damp: damp, k: k, width: pieces(k, inverseStrip) * inverseStrip}
	r := d.newRoom(inverseBytes(k))
	defer r.free()
	v.s, v.t = r.take(tensor.F32, inverseStrip, v.width), r.take(tensor.F32, inverseStrip, v.width)
	v.x = r.take(tensor.F32, inverseStrip, inverseStrip)
	v.ss, v.xs, v.z = r.takePlanes(2, inverseStrip, v.width), r.takePlanes(2, inverseStrip, inverseStrip), r.takePlanes(2, v.width, v.width)
	if inverseStrip*inversePitch*4 > d.shared-4<<10 {
		v.scratch = r.take(tensor.F32, inverseStrip, inversePitch)
	}
	v.products = table(d, v.listProducts())
	defer d.Free(v.products)
	for row := 0; row < v.width; row += inverseStrip {
		v.strip(row)
	}
}

// inverseBytes returns the workspace of InverseFactor.
func inverseBytes(k int) int {
	width := pieces(k, inverseStrip) * inverseStrip
	return 2*padded(inverseStrip*width*4) + 2*padded(inverseStrip*inversePitch*4) +
		planesBytes(2, inverseStrip, width) + planesBytes(2, inverseStrip, inverseStrip) + planesBytes(2, width, width)
}

// listProducts lists the two products of every strip.
func (v *inverse) listProducts() (list []productItem) {
	const lifts = 1.0 / (eightLift * eightLift)
	for row := 0; row < v.width; row += inverseStrip {
		s := v.d.at(v.s)
		rest := productItem{from: s, to: s, m0: int32(row), m1: int32(row + inverseStrip), n1: int32(v.width), k1: int32(row), ld: int32(v.width), alpha: -lifts, mode: belowFromN}
		solve := productItem{to: v.d.at(v.t), m1: inverseStrip, n1: int32(v.width), k1: inverseStrip, ld: int32(v.width), alpha: lifts}
		list = append(list, rest.of(v.d, v.z, v.z), solve.of(v.d, v.xs, v.ss))
	}
	return list
}

// strip computes the rows of R, Y and U that a strip makes.
func (v *inverse) strip(row int) {
	d, columns := v.d, v.width/inverseStrip
	list := func(i int) pointer { return pointer(d.at(v.products)) + pointer((2*row/inverseStrip+i)*productBytes) }
	d.inverse_strip(grid2(v.width, inverseStrip), v.s, v.ok, v.h, v.damp, int32(row), int32(v.k), int32(v.width))
	if row > 0 {
		d.runProducts(list(0), 1, columns, 2, 2)
	}
	diagonal := launch{blocks: dim{x: 1}, threads: dim{x: 256}}
	if v.scratch.Nil() {
		diagonal.shared = inverseStrip * inversePitch * 4
	}
	d.inverse_diagonal(diagonal, v.x, v.xs.mem, v.ok, from(v.s, row), v.scratch, int32(v.width))
	d.split(v.ss, v.s, byEight)
	d.runProducts(list(1), 1, columns, 2, 2)
	d.inverse_store(grid2(v.width, inverseStrip), v.z.mem, v.u, v.ok, v.t, v.x, v.h, v.damp,
		int32(row), int32(v.k), int32(v.width), int32(v.z.tiles), int64(v.z.next))
}
