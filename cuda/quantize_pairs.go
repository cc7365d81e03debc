package cuda

import (
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// windowItem is a window of a matrix: kernels/pairs.cu has the same struct.
type windowItem struct {
	parts, lifted, w, codes, scales, largest, groups, reach, planes, most uintptr
	next, plane                                                           int64
	tiles, count, row, rows, n, ld                                        int32
}

const windowBytes = int(unsafe.Sizeof(windowItem{}))

// Pairs improves codes by changing those of two rows at a time, window after window;
// what is left at a window's rows comes of products, as in Descend.
func (d *Device) Pairs(list []device.Coding, f device.Factor) {
	if len(list) == 0 {
		return
	}
	parts := d.partsOf(tilesOf(list), f.H.Cols)
	d.byParts("Pairs", list, operandOf{f.H, byRoot, f.Ready}, parts, func(w *workshop) { w.pairs(f.H, w.leftovers(f.H)) })
}

// pairs goes through the windows of all matrices.
func (w *workshop) pairs(h, roots tensor.Tensor) {
	d, k := w.d, h.Cols
	groups := table(d, w.groupsOf32(k))
	defer d.Free(groups)
	reach := d.Alloc(tensor.F32, 1, k)
	defer d.Free(reach)
	d.pairs_reach(launch{blocks: dim{x: pieces(k, 8)}, threads: dim{x: 256}}, reach, h, int32(k))
	var products []productItem
	var windows []windowItem
	tiles, wide := 0, 0
	for row := 0; row < k; row += device.PairRows {
		end := min(k, row+device.PairRows)
		for i := range w.list {
			x := &w.list[i]
			of := x.sheet
			windows = append(windows, windowItem{
				parts: d.at(of.panel) + uintptr(4*x.column()), lifted: d.at(x.most), w: d.at(x.W), codes: d.at(x.Codes), scales: d.at(x.Scales), largest: d.at(x.Largest),
				groups: d.at(groups) + uintptr(4*i*k/32), reach: d.at(reach), planes: d.at(x.errors.mem), most: d.at(x.most),
				next: int64((end - row) * of.n), plane: int64(x.errors.next),
				tiles: int32(x.errors.tiles), count: int32(of.parts), row: int32(row), rows: int32(end - row), n: int32(x.n), ld: int32(of.n),
			})
			wide = max(wide, x.n)
		}
		for _, s := range w.sheets {
			products = append(products, w.parts(s, roots, row, end)...)
			tiles = max(tiles, products[len(products)-1].blocks())
		}
	}
	list, each := table(d, windows), len(products)/(len(windows)/len(w.list))
	defer d.Free(list)
	w.products = table(d, products)
	for first := 0; first < len(windows); first += len(w.list) {
		w.multiply(productRun{first: first / len(w.list) * each, count: each, tiles: tiles})
		d.pairWindows(pointer(d.at(list))+pointer(first*windowBytes), len(w.list), wide, h)
	}
}

// pairWindows works on a window of some matrices of n columns at most. What it takes is
// instructions, of which a multiprocessor issues as many whatever the columns: they are
// spread over all, if there are not more than a block can have.
func (d *Device) pairWindows(list pointer, count, n int, h tensor.Tensor) {
	if d.shared < pairs_held_bytes {
		l := launch{blocks: dim{x: pieces(n, pairs_columns), y: count}, threads: dim{x: 32 * pairs_columns}}
		d.pairs(l, list, h, int32(h.Cols))
		return
	}
	columns := min(pieces(n, max(1, d.sms/count)), pairs_columns_held)
	l := launch{blocks: dim{x: pieces(n, columns), y: count}, threads: dim{x: 32 * max(columns, pairs_warps_held)}, shared: pairs_held_bytes}
	d.pairs_held(l, list, h, int32(h.Cols), int32(columns))
}

// groupsOf32 lists, for every 32 rows of each matrix, their group times 16, and its bits.
func (w *workshop) groupsOf32(k int) []int32 {
	list := make([]int32, 0, len(w.list)*k/32)
	for i := range w.list {
		for g, group := range w.list[i].Groups {
			for range group.Rows / 32 {
				list = append(list, int32(16*g+group.Bits))
			}
		}
	}
	return list
}
