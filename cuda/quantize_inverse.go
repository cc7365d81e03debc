package cuda

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// inverseItem is a matrix to be factored: kernels/inverse.cu has the same struct.
type inverseItem struct {
	s, t, x, scratch, xs, z, u, h, ok uintptr
	plane                             int64
	k, width, tiles, _                int32
}

// inverses is the work of InverseFactors, the largest first: what their strips share.
type inverses struct {
	d        *Device
	damp     float32
	widths   []int
	table    tensor.Tensor // of inverseItem
	operands operandRun    // of every strip of S
	products tensor.Tensor // two for each strip of each matrix: all first ones of a strip, then all second ones
	shared   int           // bytes
}

// InverseFactor stores the upper triangular U with UᵀU = (h + damp·I)⁻¹ in u, and
// whether there is one in ok.
func (d *Device) InverseFactor(u, h tensor.Tensor, damp float32, ok tensor.Tensor) {
	d.InverseFactors([]device.Inverse{{U: u, H: h, OK: ok}}, damp)
}

// InverseFactors is InverseFactor of a list.
func (d *Device) InverseFactors(list []device.Inverse, damp float32) {
	d.inverse(list, damp, func(string) {})
}

// inverse is InverseFactors, which tells what it has issued.
func (d *Device) inverse(list []device.Inverse, damp float32, issued func(name string)) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b device.Inverse) int { return b.H.Rows - a.H.Rows })
	bytes := 0
	for _, i := range list {
		k := i.H.Rows
		want(i.H.Cols == k && i.U.Rows == k && i.U.Cols == k && i.OK.Rows*i.OK.Cols == 1 && i.H.Dense() && i.U.Dense(), "InverseFactors", i.U, i.H, i.OK)
		bytes += inverseBytes(k)
	}
	for len(list) > 0 && list[len(list)-1].H.Rows == 0 {
		list = list[:len(list)-1]
	}
	if len(list) == 0 {
		return
	}
	r := d.newRoom(bytes)
	defer r.free()
	v := inverses{d: d, damp: damp}
	v.take(r, list)
	defer func() { d.Free(v.table); v.operands.free(d); d.Free(v.products) }()
	for row := 0; row < v.widths[0]; row += inverse_strip {
		v.strip(row, issued)
	}
}

// inverseBytes returns the workspace of InverseFactor.
func inverseBytes(k int) int {
	width := pieces(k, inverse_strip) * inverse_strip
	return 2*padded(inverse_strip*width*4) + 2*padded(inverse_strip*inverse_pitch*4) +
		planesBytes(2, inverse_strip, width) + planesBytes(2, inverse_strip, inverse_strip) + planesBytes(2, width, width)
}

// take takes what each matrix needs, and lists the work.
func (v *inverses) take(r *room, list []device.Inverse) {
	const lifts = 1.0 / (eightLift * eightLift)
	d, items := v.d, make([]inverseItem, len(list))
	strips := pieces(list[0].H.Rows, inverse_strip)
	rests, solves, operands := make([][]productItem, strips), make([][]productItem, strips), make([]operandItem, len(list))
	for i, of := range list {
		k := of.H.Rows
		width := pieces(k, inverse_strip) * inverse_strip
		s, t, x := r.take(tensor.F32, inverse_strip, width), r.take(tensor.F32, inverse_strip, width), r.take(tensor.F32, inverse_strip, inverse_strip)
		ss, xs, z := r.takePlanes(2, inverse_strip, width), r.takePlanes(2, inverse_strip, inverse_strip), r.takePlanes(2, width, width)
		items[i] = inverseItem{
			s: d.at(s), t: d.at(t), x: d.at(x), xs: d.at(xs.mem), z: d.at(z.mem), u: d.at(of.U), h: d.at(of.H), ok: d.at(of.OK),
			plane: int64(z.next), k: int32(k), width: int32(width), tiles: int32(z.tiles),
		}
		if v.shared = inverse_strip * inverse_pitch * 4; v.shared > d.sharedFor(kernel_inverse_diagonal) {
			v.shared, items[i].scratch = 0, d.at(r.take(tensor.F32, inverse_strip, inverse_pitch))
		}
		operands[i] = ss.item(d, s, byEight)
		for row := 0; row < width; row += inverse_strip {
			rest := productItem{from: d.at(s), to: d.at(s), m0: int32(row), m1: int32(row + inverse_strip), n1: int32(width), k1: int32(row), ld: int32(width), alpha: -lifts, mode: belowFromN}
			solve := productItem{to: d.at(t), m1: inverse_strip, n1: int32(width), k1: inverse_strip, ld: int32(width), alpha: lifts}
			at := row / inverse_strip
			rests[at], solves[at] = append(rests[at], rest.of(d, z, z)), append(solves[at], solve.of(d, xs, ss))
		}
		v.widths = append(v.widths, width)
	}
	var products []productItem
	for i := range strips {
		products = append(append(products, rests[i]...), solves[i]...)
	}
	v.table, v.operands, v.products = table(d, items), d.operandRun(operands), table(d, products)
}

// strip computes the rows of R, Y and U that a strip makes, of all matrices that reach
// so far.
func (v *inverses) strip(row int, issued func(name string)) {
	d, columns, count, before := v.d, v.widths[0]/inverse_strip, 0, 0
	for _, width := range v.widths {
		before += min(row, width) / inverse_strip
		if row < width {
			count++
		}
	}
	list := pointer(d.at(v.table))
	products := func(second int) pointer {
		return pointer(d.at(v.products)) + pointer((2*before+second*count)*productBytes)
	}
	over := grid2(v.widths[0], inverse_strip)
	over.blocks.z = count
	d.inverse_strip(over, list, v.damp, int32(row))
	issued("strip")
	if row > 0 {
		d.runProducts(products(0), count, columns, 2, 2)
	}
	issued("product of strips before")
	d.inverse_diagonal(launch{blocks: dim{x: count}, threads: dim{x: inverse_diagonal_threads}, shared: v.shared}, list, int32(row))
	issued("diagonal")
	v.operands.split(d, count)
	d.runProducts(products(1), count, columns, 2, 2)
	issued("product by the diagonal")
	d.inverse_store(over, list, v.damp, int32(row))
	issued("store")
}
