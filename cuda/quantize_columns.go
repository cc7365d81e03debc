package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// columnItem is a block of columns: kernels/columns.cu has the same struct.
type columnItem struct {
	w, target, codes, scales, ofCodes, ofScales, cols, turned, most uintptr
	k, n, m, wide, groups, _                                        int32
}

// columnGroup is a group of a block: kernels/columns.cu has the same struct.
type columnGroup struct {
	largest                          uintptr
	block, index, row, rows, bits, _ int32
}

// columnItemOf checks a block, and lists what it is made of.
func (d *Device) columnItemOf(op string, b device.ColumnBlock) columnItem {
	p, n := b.Part, b.Cols.Cols
	want(n <= columns_most_columns && p.W.Cols == n && p.Codes.Cols == n && p.Scales.Cols == n && p.W.Type == tensor.F32 &&
		p.Codes.Rows == b.Of.Codes.Rows && p.W.Rows == p.Codes.Rows && b.Target.Rows == p.W.Rows && b.Target.Type == tensor.F32 &&
		b.First+n <= b.Target.Cols && len(p.Groups) == p.Scales.Rows && b.Of.Scales.Rows == p.Scales.Rows, op, p.W, p.Codes, p.Scales, b.Of.Codes, b.Target)
	return columnItem{
		w: d.at(p.W), target: d.at(from(b.Target, b.First)), codes: d.at(p.Codes), scales: d.at(p.Scales), ofCodes: d.at(b.Of.Codes), ofScales: d.at(b.Of.Scales), cols: d.at(b.Cols),
		k: int32(p.W.Rows), n: int32(n), m: int32(b.Target.Cols), wide: int32(b.Of.Codes.Cols), groups: int32(len(p.Groups)),
	}
}

// TakeColumns fills in the parts of blocks.
func (d *Device) TakeColumns(list []device.ColumnBlock) {
	items, rows := make([]columnItem, len(list)), 0
	for i, b := range list {
		items[i] = d.columnItemOf("TakeColumns", b)
		rows = max(rows, b.Part.W.Rows+len(b.Part.Groups))
	}
	if len(list) == 0 {
		return
	}
	at := table(d, items)
	defer d.Free(at)
	d.columns_take(launch{blocks: dim{x: pieces(rows, columns_taken), y: len(list)}, threads: dim{x: columns_threads}}, pointer(d.at(at)))
}

// PutColumns puts codes of blocks back, and has the columns behind make up for errors.
func (d *Device) PutColumns(list []device.ColumnBlock) {
	if len(list) == 0 {
		return
	}
	bytes := 0
	for _, b := range list {
		k, n, m := b.Part.W.Rows, b.Cols.Cols, b.Target.Cols
		bytes += padded(4*n*k) + planesBytes(2, n, k) + planesBytes(2, n, m)
	}
	r := d.newRoom(bytes + padded(2*4*len(list)))
	defer r.free()
	most := r.takeZeros(tensor.F32, 1, 2*len(list))
	items, operands, products, tiles := make([]columnItem, len(list)), []operandItem(nil), []productItem(nil), 0
	for i, b := range list {
		items[i] = d.columnItemOf("PutColumns", b)
		k, n, m, behind := b.Part.W.Rows, b.Cols.Cols, b.Target.Cols, b.First+b.Cols.Cols
		want(b.Feed.Rows == n && b.Feed.Cols == m && b.Feed.Type == tensor.F32, "PutColumns", b.Feed, b.Target)
		if behind == m {
			continue
		}
		turned := r.take(tensor.F32, n, k)
		errors, feed := r.takePlanes(2, n, k), r.takePlanes(2, n, m)
		errors.most, feed.most = most.Columns(2*i, 2*i+1), most.Columns(2*i+1, 2*i+2)
		items[i].turned, items[i].most = d.at(turned), d.at(errors.most)
		operands = append(operands, errors.item(d, turned, byLargest), feed.item(d, b.Feed, byLargest))
		at := d.at(from(b.Target, behind))
		p := productItem{from: at, to: at, m1: int32(k), n0: int32(behind), n1: int32(m), k1: int32(pieces(n, planes_tile_rows) * planes_tile_rows), ld: int32(m), alpha: -1}
		products, tiles = append(products, p.of(d, errors, feed)), max(tiles, p.blocks())
	}
	d.columnErrors(list, items)
	if len(operands) == 0 {
		return
	}
	run, on := d.operandRun(operands), table(d, products)
	defer func() { run.free(d); d.Free(on) }()
	run.measure(d)
	run.split(d, run.count)
	d.runProducts(pointer(d.at(on)), len(products), tiles, 2, 2)
}

// columnErrors puts codes back, and leaves errors.
func (d *Device) columnErrors(list []device.ColumnBlock, items []columnItem) {
	var groups []columnGroup
	rows := 0
	for i, b := range list {
		for g, group := range b.Part.Groups {
			rows = max(rows, group.Rows)
			groups = append(groups, columnGroup{
				largest: d.at(b.Part.Largest.Reshape(len(b.Part.Groups), 1).Slice(g, g+1)),
				block:   int32(i), index: int32(g), row: int32(group.Row - b.Part.Groups[0].Row), rows: int32(group.Rows), bits: int32(group.Bits),
			})
		}
	}
	of, in := table(d, items), table(d, groups)
	d.columns_errors(launch{blocks: dim{x: pieces(rows, columns_part), y: len(groups)}, threads: dim{x: columns_threads}}, pointer(d.at(of)), pointer(d.at(in)))
	d.Free(of)
	d.Free(in)
}

// squareItem is a square to be inverted: kernels/columns.cu has the same struct.
type squareItem struct {
	u, inverse uintptr
	stride     int64
	n, _       int32
}

// Feeds makes what errors of blocks of columns take off the others.
func (d *Device) Feeds(list []device.Feed, n int) {
	want(n > 0 && n <= columns_most_columns, "Feeds")
	bytes, count := 0, 0
	for _, f := range list {
		side := f.U.Rows
		want(f.U.Cols == side && f.Feed.Rows == side && f.Feed.Cols == side && f.U.Type == tensor.F32 && f.Feed.Type == tensor.F32, "Feeds", f.Feed, f.U)
		bytes += pieces(side, n) * (padded(4*n*n) + planesBytes(2, n, n) + planesBytes(2, n, side))
		count += pieces(side, n)
	}
	if count == 0 {
		return
	}
	r := d.newRoom(bytes + padded(2*4*count))
	defer r.free()
	most := r.takeZeros(tensor.F32, 1, 2*count)
	var squares []squareItem
	var operands []operandItem
	var products []productItem
	tiles := 0
	for _, f := range list {
		side := f.U.Rows
		for lo := 0; lo < side; lo += n {
			hi := min(lo+n, side)
			rows, m := f.U.Slice(lo, hi), hi-lo
			inverse := r.take(tensor.F32, m, m)
			squares = append(squares, squareItem{u: d.at(from(rows, lo)), inverse: d.at(inverse), stride: int64(side), n: int32(m)})
			a, x := r.takePlanes(2, m, m), r.takePlanes(2, m, side)
			a.most, x.most = most.Columns(len(operands), len(operands)+1), most.Columns(len(operands)+1, len(operands)+2)
			operands = append(operands, a.item(d, inverse, byLargest), x.item(d, rows, byLargest))
			p := productItem{to: d.at(f.Feed.Slice(lo, hi)), m1: int32(m), n1: int32(side), k1: int32(pieces(m, planes_tile_rows) * planes_tile_rows), ld: int32(side), alpha: -1}
			products, tiles = append(products, p.of(d, a, x)), max(tiles, p.blocks())
		}
	}
	at, run, on := table(d, squares), d.operandRun(operands), table(d, products)
	defer func() { d.Free(at); run.free(d); d.Free(on) }()
	d.columns_invert(launch{blocks: dim{x: len(squares)}, threads: dim{x: columns_most_columns}}, pointer(d.at(at)))
	run.measure(d)
	run.split(d, run.count)
	d.runProducts(pointer(d.at(on)), len(products), tiles, 2, 2)
}
