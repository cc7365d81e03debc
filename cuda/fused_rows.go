package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// manyBytes is about how much of matrices is decoded to be multiplied at a time, wholeBytes and placedBytes the most: of what might be divided, and of what
// might not, as columns go to places all over y. The rest of the ring is for what comes next.
const manyBytes, wholeBytes, placedBytes = ringBytes / 4, ringBytes * 3 / 8, ringBytes * 3 / 4

// takesMany reports whether manyProducts makes p, of many rows, whose kernels activate gates alone.
func (d *Device) takesMany(p *packed) bool {
	if p.then.Ungated() || p.then == device.Gate && !alikeBiased(p.bias[0], p.bias[1]) {
		return false
	}
	return d.hopper() && p.x.Rows >= tiledRows && (p.scale.Nil() || normOrderShared(1, p.x.Cols) <= d.shared-anyOwn) && atSixteenBytes(p.scale) && atSixteenBytes(p.shift) && (p.to.Nil() || p.all().bytes() <= placedBytes)
}

// alikeBiased reports whether both matrices of a gate have a bias, or none: kernels/gemm_tiles.cu asks for that of the first.
func alikeBiased(gate, up tensor.Tensor) bool { return gate.Nil() == up.Nil() }

// all returns all columns of all matrices.
func (p *packed) all() share { return share{list: p.list, n: p.n, places: p.to} }

// manyProducts brings x to the order of the matrices, and multiplies, by as many columns
// as are decoded at a time.
func (d *Device) manyProducts(p *packed) {
	x, all := d.orderedInputs(p), p.all()
	if all.bytes() <= wholeBytes || !p.to.Nil() {
		d.multiplyShare(p, x, all, 0)
		return
	}
	if p.then == device.Gate {
		step := evenly(p.list[0].out, x.Cols*p.n)
		for all.lo = 0; all.lo < p.list[0].out; all.lo = all.hi {
			all.hi = min(all.lo+step, p.list[0].out)
			d.multiplyShare(p, x, all, 0)
		}
		return
	}
	for i, m := range p.list[:p.n] {
		one, step := share{n: 1}, evenly(m.out, x.Cols)
		one.list[0] = m
		for ; one.lo < m.out; one.lo = one.hi {
			one.hi = min(one.lo+step, m.out)
			d.multiplyShare(p, x, one, i)
		}
	}
}

// evenly returns how many columns, of so many weights each, are multiplied at a time: parts of about manyBytes, all but the last of whole tiles, and of one
// size, as a small rest would keep few multiprocessors busy.
func evenly(columns, weights int) int {
	const tile = gemm_tiles_wide
	parts := pieces(columns*weights*tensor.F16.Size(), manyBytes)
	return pieces(pieces(columns, parts), tile) * tile
}

// aheadRows is the fewest rows of x whose products take so long that others' weights are
// decoded beside them, and aheadShare how many, in tenths of what is multiplied.
const aheadRows, aheadShare = 384, 6

// multiplyShare multiplies by a share of p, the first of whose matrices is number first.
func (d *Device) multiplyShare(p *packed, x tensor.Tensor, s share, first int) {
	t := tiledProduct{x: x, then: p.then, act: p.act, order: p.from}
	y := p.y
	if p.then == device.Turn {
		c := p.turn.Cache.(*cache)
		t.turns, y[1], y[2] = d.turns(&p.turn), c.k[p.turn.Layer], c.v[p.turn.Layer]
		t.unread = p.turn.Unread
	}
	for i := range s.n {
		lo, hi := s.columns(i)
		m := tiledMatrix{y: y[first+i], bias: p.bias[first+i], columns: hi - lo}
		if !m.y.Nil() {
			m.y = m.y.Columns(lo, hi)
		}
		if !m.bias.Nil() {
			m.bias = m.bias.Columns(lo, hi)
		}
		t.list = append(t.list, m)
	}
	d.weightRing() // nothing is allocated while the keeper is held
	if !d.recording {
		d.kept.hold()
		defer d.kept.letGo()
	}
	t.w = d.weights(s)
	if x.Rows >= aheadRows {
		t.beside = d.ahead.queue[0].units * aheadShare / 10
		t.ahead = d.lookAhead(t.beside + d.idleUnits(&t))
	}
	d.multiplyTiles(&t)
}

// orderedInputs returns x, normalized or not, in the order of the matrices.
func (d *Device) orderedInputs(p *packed) tensor.Tensor {
	if p.ordered {
		return p.x
	}
	return d.orderOnce(p, d.orderInputs)
}

// orderInputs normalizes x, if it is to be, and puts it in that order.
func (d *Device) orderInputs(p *packed) tensor.Tensor {
	m := p.list[0]
	xs := d.scratch(scratchInputs, tensor.F16, p.x.Rows, m.in)
	if p.scale.Nil() {
		d.permute(xs, p.x, m.perm)
		return xs
	}
	d.normOrder(xs, p, m)
	return xs
}

type normOrderFunc func(d *Device, l launch, y, x, w, bias, order tensor.Tensor, rows, cols int32, ldx int64, eps, offset float32)

// normOrders are kernels by the rows of a block and the kind of the norm.
var normOrders = []struct {
	kernels map[device.NormKind]normOrderFunc
	rows    int
}{
	{map[device.NormKind]normOrderFunc{device.RMS: (*Device).norm_order_rms_2, device.Layer: (*Device).norm_order_layer_2}, 2},
	{map[device.NormKind]normOrderFunc{device.RMS: (*Device).norm_order_rms_1, device.Layer: (*Device).norm_order_layer_1}, 1},
}

// anyOwn is more than what a block takes beside that.
const anyOwn = 1 << 10

// normOrderShared returns what a block takes that has so many rows of columns at a time: those
// that are copied ahead, and those in order.
func normOrderShared(rows, cols int) int {
	return rows * cols * (norm_order_stages*tensor.F32.Size() + tensor.F16.Size())
}

// normOrder normalizes x and puts its columns in the order of m: several rows a block, if
// the GPU is busy and has room for two then.
func (d *Device) normOrder(y tensor.Tensor, p *packed, m *matrix) {
	for _, v := range normOrders {
		blocks, shared := pieces(p.x.Rows, v.rows), normOrderShared(v.rows, m.in)
		if v.rows == 1 || blocks >= d.sms && shared <= d.shared/2-anyOwn {
			l := launch{blocks: dim{x: min(blocks, 2*d.sms)}, threads: dim{x: norm_order_threads}, shared: shared}
			v.kernels[p.norm.Kind](d, l, y, p.x, p.scale, p.shift, m.order, int32(p.x.Rows), int32(m.in), int64(p.x.Stride), p.norm.Eps, p.norm.Offset)
			return
		}
	}
}
