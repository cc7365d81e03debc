package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// gramRows is how many rows of activations are multiplied at a time.
const gramRows = 8192

// Gram is h += xᵀ·y. With y the same tensor as x only one triangle is computed,
// and mirrored.
func (d *Device) Gram(h, x, y tensor.Tensor) {
	d.gram(h, x, y)
	if sameTensor(x, y) && x.Rows > 0 {
		d.mirror(h)
	}
}

// Grams is Gram for a list, without what is below the diagonal of moments of an x with
// itself. Spans of one matrix, each too small to keep the GPU busy, go side by side, and
// so do two moments of activations.
func (d *Device) Grams(list []device.Moment) {
	list = d.gramPairs(list)
	var spans []device.Moment
	taken := map[uintptr]bool{}
	flush := func() {
		d.gramSpans(spans)
		clear(taken)
		spans = nil
	}
	for _, m := range list {
		at := d.at(m.H)
		if taken[at] { // sums are in the order of the list
			flush()
		}
		if m.X.Type != tensor.F32 || !sameTensor(m.X, m.Y) || m.X.Rows == 0 || m.X.Rows > gramRows {
			d.gram(m.H, m.X, m.Y)
			continue
		}
		spans, taken[at] = append(spans, m), true
	}
	flush()
}

// gramPairs adds moments of activations where tiles do so, two at a time, and returns the
// others. Sums of one h are in the order of the list: all of them go one way.
func (d *Device) gramPairs(list []device.Moment) (others []device.Moment) {
	for len(list) > 0 {
		n := 1
		switch {
		case !d.tilesGram(list[0]):
			others = append(others, list[0])
		case len(list) > 1 && d.tilesGram(list[1]) && d.tilesWith(list[0], list[1]):
			n = 2
			fallthrough
		default:
			d.gramTiles(list[:n]...)
		}
		list = list[n:]
	}
	return others
}

// Mirror copies what is above the diagonals to below them.
func (d *Device) Mirror(hs []tensor.Tensor) {
	for _, h := range hs {
		d.mirror(h)
	}
}

func (d *Device) mirror(h tensor.Tensor) {
	want(h.Rows == h.Cols && h.Dense(), "Mirror", h)
	side := pieces(h.Rows, 32)
	d.diagonal_mirror(launch{blocks: dim{x: side, y: side}, threads: dim{x: 256}}, h, int32(h.Rows))
}

// sameTensor reports whether two tensors are one.
func sameTensor(x, y tensor.Tensor) bool {
	return x.Type == y.Type && x.Mem == y.Mem && x.Off == y.Off && x.Stride == y.Stride && x.Cols == y.Cols
}

func checkGram(h, x, y tensor.Tensor) {
	want(x.Rows == y.Rows && h.Rows == x.Cols && h.Cols == y.Cols && h.Type == tensor.F32, "Gram", h, x, y)
}

// gram is Gram without the mirror.
func (d *Device) gram(h, x, y tensor.Tensor) {
	checkGram(h, x, y)
	if m := (device.Moment{H: h, X: x, Y: y}); d.tilesGram(m) {
		d.gramTiles(m)
		return
	}
	same := sameTensor(x, y)
	if !same && d.blas.gram(d, h, x, y) {
		return
	}
	for lo := 0; lo < x.Rows; lo += gramRows {
		hi := min(x.Rows, lo+gramRows)
		d.addGram(h, x.Slice(lo, hi), y.Slice(lo, hi), same)
	}
}

func (d *Device) addGram(h, x, y tensor.Tensor, same bool) {
	_, xs := planesOf(x)
	_, ys := planesOf(y)
	r := d.newRoom(xs + ys)
	defer r.free()
	a := d.operand(r, x)
	b := a
	if !same {
		b = d.operand(r, y)
	}
	d.product(d.gramItem(h, x.Rows, same).of(d, a, b), a.count, b.count)
}

// gramItem is h += xᵀ·y over some rows.
func (d *Device) gramItem(h tensor.Tensor, rows int, same bool) productItem {
	at := d.address("Gram", h)
	p := productItem{from: at, to: at, m1: int32(h.Rows), n1: int32(h.Cols), k1: int32(pieces(rows, planes_tile_rows) * planes_tile_rows), ld: int32(h.Cols), alpha: 1}
	if same {
		p.mode = upperResult
	}
	return p
}

// gramSpans adds moments of x with itself, F32, each of another h.
func (d *Device) gramSpans(list []device.Moment) {
	if len(list) == 0 {
		return
	}
	bytes := padded(4 * len(list))
	for _, m := range list {
		bytes += planesBytes(2, m.X.Rows, m.X.Cols)
	}
	r := d.newRoom(bytes)
	defer r.free()
	most := r.takeZeros(tensor.F32, 1, len(list))
	operands, products, blocks := make([]operandItem, len(list)), make([]productItem, len(list)), 0
	for i, m := range list {
		checkGram(m.H, m.X, m.Y)
		p := r.takePlanes(2, m.X.Rows, m.X.Cols)
		p.most = most.Columns(i, i+1)
		operands[i] = p.item(d, m.X, byLargest)
		products[i] = d.gramItem(m.H, m.X.Rows, true).of(d, p, p)
		blocks = max(blocks, products[i].blocks())
	}
	run := d.operandRun(operands)
	defer run.free(d)
	run.measure(d)
	run.split(d, len(list))
	at := table(d, products)
	defer d.Free(at)
	d.runProducts(pointer(d.at(at)), len(list), blocks, 2, 2)
}
