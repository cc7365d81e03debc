package cuda

import (
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// windowItem is a window of a matrix: kernels/pairs.cu has the same struct.
type windowItem struct {
	parts, lifted, w, codes, scales, largest, groups, reach, planes, most, changes, counts uintptr
	next, plane                                                                            int64
	tiles, count, row, rows, n, ld, since, keeps                                           int32
}

const windowBytes = int(unsafe.Sizeof(windowItem{}))

// Pairs improves codes by changing those of two rows at a time, window after window;
// what is left at a window's rows comes of products, as in Descend.
func (d *Device) Pairs(list []device.Coding, f device.Factor) {
	if len(list) == 0 {
		return
	}
	together := d.windowsTogether(tilesOf(list))
	parts := shares{d.partsOf(together*tilesOf(list), f.H.Cols), together}
	d.byParts("Pairs", list, descended(f), parts, func(w *workshop) { w.pairs(f.H, w.leftovers(f.H), together) })
}

// windowsTogether returns how many windows come of the same products, where those of one, of so many
// tiles, would leave multiprocessors idle: changes in the first ones reach the others one by
// one, as they are few.
func (d *Device) windowsTogether(tiles int) int {
	if units := d.planned(); pairs_most_together*tiles <= units {
		return pairs_most_together
	}
	return 1
}

// pairs goes through the windows of all matrices.
func (w *workshop) pairs(h, roots tensor.Tensor, together int) {
	d, k := w.d, h.Cols
	groups := table(d, w.groupsOf32(k))
	defer d.Free(groups)
	reach := d.Alloc(tensor.F32, 1, k)
	defer d.Free(reach)
	d.pairs_reach(launch{blocks: dim{x: pieces(k, 8)}, threads: dim{x: 256}}, reach, h, int32(k))
	var products []productItem
	var windows []windowItem
	tiles, wide := 0, 0
	changes, counts := w.changes(together)
	defer func() { d.Free(changes); d.Free(counts) }()
	for row := 0; row < k; row += device.PairRows {
		end, first := min(k, row+device.PairRows), row/(together*device.PairRows)*together*device.PairRows
		last := min(k, first+together*device.PairRows)
		column := 0
		for i := range w.list {
			x := &w.list[i]
			of := x.sheet
			windows = append(windows, windowItem{
				parts: d.at(of.panel) + uintptr(4*((row-first)*of.n+x.column())), lifted: d.at(x.most), w: d.at(x.W), codes: d.at(x.Codes), scales: d.at(x.Scales), largest: d.at(x.Largest),
				groups: d.at(groups) + uintptr(4*i*k/32), reach: d.at(reach), planes: d.at(x.errors.mem), most: d.at(x.most),
				next: int64((last - first) * of.n), plane: int64(x.errors.next),
				tiles: int32(x.errors.tiles), count: int32(of.parts), row: int32(row), rows: int32(end - row), n: int32(x.n), ld: int32(of.n),
				since: flag(row > first), keeps: flag(end < last),
			})
			if together > 1 {
				windows[len(windows)-1].changes = d.at(changes) + uintptr(8*pairs_most_changes*column)
				windows[len(windows)-1].counts = d.at(counts) + uintptr(4*column)
			}
			wide, column = max(wide, x.n), column+x.n
		}
		for _, s := range w.sheets {
			if row > first {
				break
			}
			products = append(products, w.parts(s, roots, row, last)...)
			tiles = max(tiles, products[len(products)-1].blocks())
		}
	}
	list, each := table(d, windows), len(products)/pieces(k, together*device.PairRows)
	defer d.Free(list)
	w.products = table(d, products)
	for i := range len(windows) / len(w.list) {
		if i%together == 0 {
			w.multiply(productRun{first: i / together * each, count: each, tiles: tiles})
		}
		d.pairWindows(pointer(d.at(list))+pointer(i*len(w.list)*windowBytes), len(w.list), wide, h)
	}
}

// changes returns room for the changes of all columns in windows that share products.
func (w *workshop) changes(together int) (changes, counts tensor.Tensor) {
	n := 0
	for i := range w.list {
		n += w.list[i].n
	}
	if together == 1 {
		return changes, counts
	}
	return w.d.reserve(changeBytes(n)), w.d.reserve(4 * n)
}

// changeBytes is what the changes of n columns take.
func changeBytes(n int) int { return 8 * n * pairs_most_changes }

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
