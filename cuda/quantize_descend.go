package cuda

import (
	"slices"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// blockItem is a block of a matrix: kernels/descend.cu has the same struct.
type blockItem struct {
	steps, parts, most            uintptr
	next                          int64
	groups, count, rows, n, ld, _ int32
}

const blockBytes = int(unsafe.Sizeof(blockItem{}))

// A blockRun is blocks of matrices that are worked on together, after their products:
// items from first on in the table, of up to so many columns.
type blockRun struct {
	products             productRun
	first, count, across int
	quads                int // of columns of all rows, at most
}

// summedInBlock is up to how many parts of products the kernel that needs their sum adds
// itself.
const summedInBlock = 2

// A sheet is matrices side by side whose blocks have the same rows, so that a product
// serves all: narrow ones, of which each alone would leave half of its tiles empty. Any
// other matrix is a sheet by itself.
type sheet struct {
	first  int // of the matrices, in the workshop's list
	n      int // columns
	blocks [][]exl2.Group
	errors planes
	panel  tensor.Tensor // F32 [parts·rows of the largest block, n]
	parts  int           // of the products of a block
}

// narrow reports whether a matrix of n columns shares a sheet.
func narrow(n int) bool { return n == planes_tile_cols }

// shares says in how many parts products are made, 0 of none that are, and for how many
// blocks at once.
type shares struct{ parts, blocks int }

// panels returns how many times the memory of a block's rows products fill.
func (s shares) panels() int { return max(s.parts*s.blocks, 1) }

// sheetsOf returns which matrices begin a sheet.
func sheetsOf(list []device.Coding) (first []int) {
	for i, c := range list {
		if i > 0 && narrow(c.Codes.Cols) && narrow(list[i-1].Codes.Cols) && sameRows(blocksOf(c.Groups), blocksOf(list[i-1].Groups)) {
			continue
		}
		first = append(first, i)
	}
	return first
}

func sameRows(a, b [][]exl2.Group) bool {
	return slices.EqualFunc(a, b, func(x, y []exl2.Group) bool { return x[0].Row == y[0].Row })
}

// tilesOf is the tiles of the products of a block of sheets.
func tilesOf(list []device.Coding) (tiles int) {
	first := sheetsOf(list)
	for i, lo := range first {
		hi, n := len(list), 0
		if i+1 < len(first) {
			hi = first[i+1]
		}
		for _, c := range list[lo:hi] {
			n += c.Codes.Cols
		}
		tiles += blockTiles(n)
	}
	return tiles
}

// blockTiles is the tiles of the products of a block of n columns.
func blockTiles(n int) int { return pieces(blockRows, productSide) * pieces(n, productSide) }

// spread takes room for sheets of matrices, and measures these.
func (w *workshop) spread(list []device.Coding, of shares) {
	w.most = w.room.takeZeros(tensor.F32, 1, len(list))
	measured := make([]operandItem, len(list))
	for i, c := range list {
		x := coded{Coding: c, k: c.Codes.Rows, n: c.Codes.Cols, blocks: blocksOf(c.Groups), most: w.most.Columns(i, i+1)}
		want(c.W.Rows == x.k && c.W.Cols == x.n && c.W.Type == tensor.F32, "Descend", c.W, c.Codes)
		measured[i] = planes{most: x.most}.item(w.d, c.W, byLargest)
		w.list = append(w.list, x)
	}
	run := w.d.operandRun(measured)
	run.measure(w.d)
	run.free(w.d)
	for _, i := range sheetsOf(list) {
		w.sheets = append(w.sheets, &sheet{first: i, blocks: w.list[i].blocks, parts: of.parts})
	}
	for i, s := range w.sheets {
		end, rows := len(w.list), 0
		if i+1 < len(w.sheets) {
			end = w.sheets[i+1].first
		}
		for _, x := range w.list[s.first:end] {
			s.n, rows = s.n+x.n, max(rows, panelRows(x.Groups))
		}
		s.errors, s.panel = w.room.takePlanes(2, w.list[s.first].k, s.n), w.room.take(tensor.F32, of.parts*of.blocks*rows, s.n)
		column := 0
		for at := s.first; at < end; at++ {
			x := &w.list[at]
			x.sheet, x.errors = s, s.errors.from(column/planes_tile_cols)
			x.errors.most = x.most
			column += x.n
		}
	}
}

// Descend improves codes by passes of coordinate descent. What is left at a block's
// rows comes of products with the errors of all rows as they are; where a matrix has
// few columns, of several, each of a part of k.
func (d *Device) Descend(list []device.Coding, f device.Factor, passes int) {
	if passes == 0 || len(list) == 0 {
		return
	}
	inBlocks, parts := d.sharedFor(kernel_descend) >= descend_room_bytes, shares{}
	for _, c := range list {
		inBlocks = inBlocks && panelRows(c.Groups) <= descend_most_rows
	}
	if inBlocks {
		parts = shares{d.partsOf(tilesOf(list), f.H.Cols), 1}
	}
	d.byParts("Descend", list, descended(f), parts, func(w *workshop) {
		roots := w.leftovers(f.H)
		if inBlocks {
			w.descend(f.H, roots, passes)
			return
		}
		w.plan(func(x *coded, row, end int) productItem {
			return productItem{rows: d.at(roots.Slice(row, end)), k1: int32(f.H.Cols), alpha: 1.0 / diagonalLift}
		}, nil)
		for range passes {
			w.each(func(r run) {
				w.feed(r, f.H)
				d.gptq_rows_descend(w.overRows(r), w.at(r), f.H, int32(f.H.Cols))
			})
		}
	})
}

// descended is the moments of a factor as products of descents take them, and how they take errors:
// as fp16 has both. What is left at a row is rounded to a step of its code, and moments are known to
// fewer digits than that.
func descended(f device.Factor) operandOf {
	o := operandOf{f.H, byRoot, f.Ready, 1, 1}
	if pieces(f.H.Cols, planes_tile_rows)%2 != 0 { // of one plane each, steps are of two tiles
		o.planes = 2
	}
	return o
}

// ReadyToDescend returns planes of H.
func (d *Device) ReadyToDescend(f device.Factor) tensor.Tensor {
	k := f.H.Cols
	mem := d.reserve(2 * planesHalves(2, k, k))
	mem.Type, mem.Cols, mem.Stride = tensor.F16, mem.Cols/2, mem.Cols/2
	d.split(newPlanes(2, k, k, mem), f.H, byRoot)
	return mem
}

// partsOf returns how many parts the products of a block have whose matrices have so
// many tiles, of k rows: as many as take the least time, whatever memory there is, so
// that the bytes are the same.
func (d *Device) partsOf(tiles, k int) int {
	const most, begin = pairs_most_sums, 8 // begin: what a tile takes beside its steps of k, in such steps
	units, steps, best, least := d.planned(), pieces(k, planes_tile_rows), 1, 0
	for p := 1; p <= min(most, max(1, steps/begin)); p++ {
		if time := pieces(tiles*p, units)*(pieces(steps, p)+begin) + p; p == 1 || time < least {
			best, least = p, time
		}
	}
	return best
}

// planned returns how many multiprocessors products are divided for.
func (d *Device) planned() int {
	if d.sms == 0 { // a plan for no GPU
		return 132
	}
	return d.sms
}

// leftovers leaves the errors of all matrices as operands, and returns what their rows
// are multiplied by.
func (w *workshop) leftovers(h tensor.Tensor) (roots tensor.Tensor) {
	d, k, all := w.d, h.Cols, w.most
	if all.Nil() {
		all = w.room.takeZeros(tensor.F32, 1, len(w.list))
		for i := range w.list { // side by side
			x := &w.list[i]
			most := all.Columns(i, i+1)
			d.Copy(most, x.most)
			x.most, x.errors.most = most, most
		}
	}
	roots = w.room.take(tensor.F32, k, 1)
	d.coding_range(launch{blocks: dim{x: 1}, threads: dim{x: 1024}}, all, roots, h, int32(k), int32(len(w.list)))
	s := steps{d: d}
	var groups []stepItem
	for i := range w.list {
		x := &w.list[i]
		for g := range x.Groups {
			groups = append(groups, x.step(d, g, x.Groups[g].Row))
		}
	}
	runs := s.add(groups)
	s.upload()
	defer s.free()
	for _, r := range runs {
		l := r.over(min(128, pieces(r.cols, 32)*32))
		l.blocks.z = pieces(r.rows, coding_error_rows)
		d.coding_errors(l, s.at(r), h, int32(k))
	}
	return roots
}

// column returns which column of its sheet the matrix begins at.
func (x *coded) column() int {
	return (x.errors.mem.Off - x.sheet.errors.mem.Off) / (planes_tile_halves * tensor.F16.Size()) * planes_tile_cols
}

// descend has passes go through whole blocks.
func (w *workshop) descend(h, roots tensor.Tensor, passes int) {
	d, k := w.d, h.Cols
	var products []productItem
	var blocks, sums []blockItem
	var runs []blockRun
	for b := 0; ; b++ {
		now := blockRun{first: len(blocks), products: productRun{first: len(products)}}
		for i := range w.list {
			x := &w.list[i]
			if b >= len(x.blocks) {
				continue
			}
			row, end := rowsOf(x.blocks[b])
			of := x.sheet
			item := blockItem{
				steps: uintptr(len(w.items) * stepBytes), parts: d.at(of.panel) + uintptr(4*x.column()), most: d.at(x.most), next: int64((end - row) * of.n),
				groups: int32(len(x.blocks[b])), count: int32(of.parts), rows: int32(end - row), n: int32(x.n), ld: int32(of.n),
			}
			for g := range x.blocks[b] {
				w.items = append(w.items, x.step(d, w.index(x, b)+g, row))
			}
			sums = append(sums, item)
			if item.count > summedInBlock {
				item.count, item.most = 1, 0
			}
			blocks, now.across = append(blocks, item), max(now.across, pieces(x.n, descend_columns))
			now.quads = max(now.quads, (end-row)*x.n/4)
		}
		for _, s := range w.sheets {
			if b < len(s.blocks) {
				row, end := rowsOf(s.blocks[b])
				products = append(products, w.parts(s, roots, row, end)...)
				now.products.tiles = max(now.products.tiles, products[len(products)-1].blocks())
			}
		}
		now.count, now.products.count = len(blocks)-now.first, len(products)-now.products.first
		if now.count == 0 {
			break
		}
		runs = append(runs, now)
	}
	w.upload()
	for i := range blocks {
		blocks[i].steps += d.at(w.table)
	}
	list, summed := table(d, blocks), table(d, sums)
	defer func() { d.Free(list); d.Free(summed) }()
	w.products = table(d, products)
	for range passes {
		for _, r := range runs {
			w.multiply(r.products)
			if w.sheets[0].parts > summedInBlock {
				over := launch{blocks: dim{x: pieces(r.quads, descend_sum_threads), y: r.count}, threads: dim{x: descend_sum_threads}}
				d.descend_sum(over, pointer(d.at(summed))+pointer(r.first*blockBytes))
			}
			l := launch{blocks: dim{x: r.across, y: r.count}, threads: dim{x: descend_threads}, shared: descend_room_bytes}
			descend := d.descend
			if r.across*r.count > d.sms {
				l.threads.x, descend = descend_many_threads, d.descend_many
			}
			descend(l, pointer(d.at(list))+pointer(r.first*blockBytes), h, int32(k))
		}
	}
}

// parts lists the products that make up what is left at the rows of a block of a sheet.
// The kernel that adds them takes the errors' lifts off.
func (w *workshop) parts(s *sheet, roots tensor.Tensor, row, end int) (list []productItem) {
	d, k := w.d, w.list[s.first].k
	unit := planes_tile_rows
	if w.of.planes+w.of.errors == 2 { // whose products take two tiles at a time
		unit *= 2
	}
	steps := pieces(k, unit)
	for p := range s.parts {
		item := productItem{
			to: d.at(s.panel) + uintptr(4*p*(end-row)*s.n), rows: d.at(roots.Slice(row, end)), alpha: 1.0 / diagonalLift,
			m0: int32(row), m1: int32(end), n1: int32(s.n), ld: int32(s.n),
			k0: int32(steps * p / s.parts * unit), k1: int32(steps * (p + 1) / s.parts * unit),
		}
		list = append(list, item.of(d, w.factor, s.errors))
	}
	return list
}
