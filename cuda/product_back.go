package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// ProductsBack is dx += Σ dy·w and dw += dyᵀ·x, dy in fp16: all products in one launch.
// What several linears have computed stands side by side, in whole tiles, so that dx
// is one product.
func (d *Device) ProductsBack(dx tensor.Tensor, list []device.Passed, x tensor.Tensor) {
	checkProductsBack(dx, list, x)
	if x.Rows == 0 || d.blas.productsBack(d, dx, list, x) {
		return
	}
	b := d.newProductsBack(list, x, !dx.Nil())
	defer b.room.free()
	b.operands(list, x)
	items := append(b.weightProducts(list), b.inputProducts(dx)...)
	at, blocks := table(d, items), 0
	for _, p := range items {
		blocks = max(blocks, p.blocks())
	}
	d.runProducts(pointer(d.at(at)), len(items), blocks, 1, 1)
	d.Free(at)
	for i, p := range list {
		if b.splits > 1 {
			l := launch{blocks: dim{x: pieces(b.in, gemm_join_columns), y: p.DW.Rows}, threads: dim{x: gemm_join_threads}}
			d.gemm_join_f32(l, p.DW, b.parts[i], tensor.Tensor{}, int32(p.DW.Rows), int32(b.in), int32(b.in), int32(b.splits))
		}
	}
}

// productsBack is a ProductsBack under way.
type productsBack struct {
	*Device
	room                   *room
	rows, in, out          int // out: of all linears, in whole tiles
	splits                 int
	offsets                []int           // of the linears' outputs
	parts                  []tensor.Tensor // of the linears' dw, if there are splits: F32 [splits·out, in]
	plain, turned, read, w planes          // dy, dyᵀ, x and w
}

// productSide is that of a block's tile.
const productSide = 128

func checkProductsBack(dx tensor.Tensor, list []device.Passed, x tensor.Tensor) {
	want(dx.Nil() || dx.Rows == x.Rows && dx.Cols == x.Cols, "ProductsBack", dx, x)
	for _, p := range list {
		want(p.DY.Rows == x.Rows && p.W.Rows == p.DY.Cols && p.W.Cols == x.Cols && p.DW.Rows == p.W.Rows && p.DW.Cols == p.W.Cols && p.DW.Dense(), "ProductsBack", p.DY, p.W, p.DW, x)
	}
}

// newProductsBack takes room, for gradients of x, too, if inputs is set. The gradient of
// a weight is divided
// into sums over a thousand rows at least, so that the GPU is busy.
func (d *Device) newProductsBack(list []device.Passed, x tensor.Tensor, inputs bool) *productsBack {
	const pair, least = 2 * planes_tile_rows, 1024
	b := &productsBack{Device: d, rows: x.Rows, in: x.Cols}
	tiles, sums := 0, 0
	for _, p := range list {
		b.offsets = append(b.offsets, b.out)
		b.out += pieces(p.W.Rows, pair) * pair
		tiles += pieces(p.W.Rows, productSide) * pieces(b.in, productSide)
		sums += padded(4 * p.W.Rows * b.in)
	}
	b.splits = max(1, min(d.sms/max(tiles, 1), b.rows/least))
	b.room = d.newRoom(planesBytes(1, b.rows, b.out) + planesBytes(1, b.out, b.rows) + planesBytes(1, b.rows, b.in) + planesBytes(1, b.out, b.in) + padded(4) + b.splits*sums)
	b.plain, b.read = b.room.takePlanes(1, b.rows, b.out), b.room.takePlanes(1, b.rows, b.in)
	b.plain.most = b.room.takeZeros(tensor.F32, 1, 1)
	if inputs {
		b.turned, b.w = b.room.takePlanes(1, b.out, b.rows), b.room.takePlanes(1, b.out, b.in)
		b.turned.most = b.plain.most
	}
	return b
}

// operands makes planes: dy lifted by the largest number of all.
func (b *productsBack) operands(list []device.Passed, x tensor.Tensor) {
	d := b.Device
	for _, p := range list {
		d.measure(b.plain.most, p.DY)
	}
	d.fillPlane(b.read, x)
	for i, p := range list {
		plain, turned := b.plain.from(b.offsets[i]/planes_tile_cols), tensor.Tensor{}
		if b.turned.tiles > 0 {
			row := b.offsets[i] / planes_tile_rows
			turned = b.turned.from(row * b.turned.tiles).mem
			d.fillPlane(b.w.from(row*b.w.tiles), p.W)
		}
		l := launch{blocks: dim{x: pieces(p.DY.Cols, operand_halves_side), y: pieces(b.rows, operand_halves_side)}, threads: dim{x: operand_halves_threads}}
		d.operand_halves(l, plain.mem, turned, p.DY, b.plain.most, int32(b.rows), int32(p.DY.Cols), int32(p.DY.Stride), int32(b.plain.tiles), int32(b.turned.tiles))
	}
}

// from returns planes from one of the tiles on.
func (p planes) from(tile int) planes {
	p.mem = p.mem.Columns(tile*planes_tile_halves, p.mem.Cols)
	return p
}

// weightProducts lists the products of dw: one a linear, or, in parts, sums over some
// rows each, of which the first begins with dw.
func (b *productsBack) weightProducts(list []device.Passed) (items []productItem) {
	const pair = 2 * planes_tile_rows
	steps := pieces(b.rows, pair)
	for i, of := range list {
		at, out := b.address("ProductsBack", of.DW), of.DW.Rows
		p := productItem{from: at, to: at, m0: int32(b.offsets[i]), m1: int32(b.offsets[i] + out), n1: int32(b.in), ld: int32(b.in), alpha: 1}.of(b.Device, b.plain, b.read)
		var parts tensor.Tensor
		if b.splits > 1 {
			parts = b.room.take(tensor.F32, b.splits*out, b.in)
			b.parts = append(b.parts, parts)
		}
		for s := range b.splits {
			p.k0, p.k1 = int32(steps*s/b.splits*pair), int32(steps*(s+1)/b.splits*pair)
			if b.splits > 1 {
				p.to = b.at(parts.Slice(s*out, (s+1)*out))
			}
			items = append(items, p)
			p.from = 0
		}
	}
	return items
}

// inputProducts lists the products of dx, for some rows each: blocks beyond a
// product's own cost time, so that all in a launch are to have about as many.
func (b *productsBack) inputProducts(dx tensor.Tensor) (items []productItem) {
	if dx.Nil() {
		return nil
	}
	rows := pieces(b.out/max(1, len(b.offsets)), productSide) * productSide
	for lo := 0; lo < dx.Rows; lo += rows {
		hi := min(lo+rows, dx.Rows)
		at := b.address("ProductsBack", dx.Slice(lo, hi))
		p := productItem{from: at, to: at, m0: int32(lo), m1: int32(hi), n1: int32(b.in), k1: int32(b.out), ld: int32(dx.Stride), alpha: 1}
		items = append(items, p.of(b.Device, b.turned, b.w))
	}
	return items
}
