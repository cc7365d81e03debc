package cuda

import "exl2/internal/tensor"

// ProductBack is dx += dy·w and dw += dyᵀ·x, dy in fp16: all products in one launch.
func (d *Device) ProductBack(dx, dw, dy, x, w tensor.Tensor) {
	want(x.Rows == dy.Rows && w.Rows == dy.Cols && x.Cols == w.Cols && dw.Rows == w.Rows && dw.Cols == w.Cols && dw.Dense() &&
		(dx.Nil() || dx.Rows == x.Rows && dx.Cols == x.Cols), "ProductBack", dx, dw, dy, x, w)
	rows, in, out := x.Rows, x.Cols, w.Rows
	if rows == 0 {
		return
	}
	splits := d.rowSplits(rows, in, out)
	r := d.newRoom(planesBytes(1, rows, out) + planesBytes(1, out, rows) + planesBytes(1, rows, in) + planesBytes(1, out, in) + padded(4) + padded(4*splits*out*in))
	defer r.free()
	plain, turned := d.halves(r, dy, !dx.Nil())
	read := d.operand(r, x)
	items, parts := d.weightProducts(r, dw, plain, read, rows, splits)
	if !dx.Nil() {
		items = append(items, d.inputProducts(dx, turned, d.operand(r, w), out, pieces(out, productSide)*productSide)...)
	}
	list, blocks := table(d, items), 0
	for _, p := range items {
		blocks = max(blocks, p.blocks())
	}
	d.runProducts(pointer(d.at(list)), len(items), blocks, 1, 1)
	d.Free(list)
	if splits > 1 {
		l := launch{blocks: dim{x: pieces(in, gemm_join_columns), y: out}, threads: dim{x: gemm_join_threads}}
		d.gemm_join_f32(l, dw, parts, tensor.Tensor{}, int32(out), int32(in), int32(in), int32(splits))
	}
}

// productSide is that of a block's tile.
const productSide = 128

// inputProducts lists the products of dx += dy·w, for some rows each: blocks beyond
// a product's own cost time, so that all in a launch are to have about as many.
func (d *Device) inputProducts(dx tensor.Tensor, dy, w planes, out, rows int) (items []productItem) {
	k := pieces(out, planes_tile_rows) * planes_tile_rows
	for lo := 0; lo < dx.Rows; lo += rows {
		hi := min(lo+rows, dx.Rows)
		at := d.address("ProductBack", dx.Slice(lo, hi))
		p := productItem{from: at, to: at, m0: int32(lo), m1: int32(hi), n1: int32(dx.Cols), k1: int32(k), ld: int32(dx.Stride), alpha: 1}
		items = append(items, p.of(d, dy, w))
	}
	return items
}

// rowSplits returns into how many sums the gradient of a weight is divided, so that
// the GPU is busy: each is over a thousand rows at least.
func (d *Device) rowSplits(rows, in, out int) int {
	const least = 1024
	return max(1, min(d.sms/(pieces(out, productSide)*pieces(in, productSide)), rows/least))
}

// weightProducts lists the products of dw += dyᵀ·x: one, or, in parts, sums over some
// rows each, of which the first begins with dw.
func (d *Device) weightProducts(r *room, dw tensor.Tensor, dy, x planes, rows, splits int) (items []productItem, parts tensor.Tensor) {
	const pair = 2 * planes_tile_rows
	at, out, in := d.address("ProductBack", dw), dw.Rows, dw.Cols
	p := productItem{from: at, to: at, m1: int32(out), n1: int32(in), ld: int32(in), alpha: 1}.of(d, dy, x)
	if splits > 1 {
		parts = r.take(tensor.F32, splits*out, in)
	}
	steps := pieces(rows, pair)
	for i := range splits {
		p.k0, p.k1 = int32(steps*i/splits*pair), int32(steps*(i+1)/splits*pair)
		if splits > 1 {
			p.to = d.at(parts.Slice(i*out, (i+1)*out))
		}
		items = append(items, p)
		p.from = 0
	}
	return items, parts
}

// halves makes planes of dy in fp16, lifted by the largest number, and of dyᵀ if that
// is asked for.
func (d *Device) halves(r *room, dy tensor.Tensor, both bool) (plain, turned planes) {
	most := r.takeZeros(tensor.F32, 1, 1)
	d.measure(most, dy)
	plain = r.takePlanes(1, dy.Rows, dy.Cols)
	plain.most = most
	if both {
		turned = r.takePlanes(1, dy.Cols, dy.Rows)
		turned.most = most
	}
	l := launch{blocks: dim{x: pieces(dy.Cols, operand_halves_side), y: pieces(dy.Rows, operand_halves_side)}, threads: dim{x: operand_halves_threads}}
	d.operand_halves(l, plain.mem, turned.mem, dy, most, int32(dy.Rows), int32(dy.Cols), int32(dy.Stride), int32(plain.tiles), int32(turned.tiles))
	return plain, turned
}
