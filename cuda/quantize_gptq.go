package cuda

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// GPTQ quantizes matrices that share a factor, as many at a time as there is
// memory for. What the errors of earlier rows have made of a block's comes of one
// product, so that no copies of W are kept; within a block the errors of earlier
// groups reach a group by another. Blocks of which another coding of the same weights has
// the same groups are quantized once (inherit).
func (d *Device) GPTQ(list []device.Coding, f device.Factor, loss tensor.Tensor) {
	want(loss.Rows*loss.Cols == len(list) && loss.Type == tensor.F64, "GPTQ", loss)
	d.byParts("GPTQ", list, operandOf{f.U, byDiagonal, tensor.Tensor{}, 2, 2}, shares{}, func(w *workshop) {
		w.inherit()
		alpha := float32(-1.0 / diagonalLift)
		w.plan(func(x *coded, row, end int) productItem {
			return productItem{from: d.at(x.W.Slice(row, end)), k1: int32(row), alpha: alpha}
		}, func(x *coded, block, row, end int) productItem {
			rows := d.at(x.panel.Slice(row-block, end-block))
			return productItem{from: rows, to: rows, k0: int32(block), k1: int32(row), alpha: alpha}
		})
		w.each(func(r run) {
			w.measureTop(r)
			w.search(r, f.Importance)
			d.gptq_rows_round(w.overRows(r), w.at(r), f.U, int32(f.U.Cols))
		})
		for i, x := range w.list {
			sum := loss.Reshape(len(list), 1).Slice(w.first+i, w.first+i+1)
			d.sumParts(sum, x.loss, 1)
		}
	})
}

// A workshop is matrices that are quantized side by side.
type workshop struct {
	steps
	room     *room
	first    int // of list in the caller's
	list     []coded
	sheets   []*sheet
	most     tensor.Tensor // F32 [1, len(list)] of matrices in sheets
	factor   planes
	of       operandOf
	products tensor.Tensor
	blocks   []block
}

// A block is what happens to one block of every matrix: what others have done is copied,
// then products, then group after group.
type block struct {
	heirs    []*coded
	products productRun
	groups   []groupRun
}

// A groupRun is what happens to one group of every matrix: products, unless it is a
// block's first group, then steps.
type groupRun struct {
	products productRun
	steps    []run
}

// A productRun is products that are launched together: items from first on in the
// table, of as many tiles at most.
type productRun struct{ first, count, tiles int }

// operandOf is a matrix, how it is lifted, and its planes, if they are there; and how many of these,
// and of those of errors, products take.
type operandOf struct {
	x              tensor.Tensor
	how            int32
	ready          tensor.Tensor
	planes, errors int
}

// plentyOfWork is the workspace from which on it is asked what memory there is, which
// takes time; whoever plans has planned for less.
const plentyOfWork = 1 << 30

// byParts calls f for parts of a list that there is memory for, with planes of the
// factor that they share; and, if products are in parts, with room for those of sheets.
func (d *Device) byParts(op string, list []device.Coding, of operandOf, parts shares, f func(w *workshop)) {
	factor := of.x
	k := factor.Cols
	for _, c := range list {
		want(c.Codes.Rows == k && factor.Rows == k && c.Groups[0].Row == 0, op, c.Codes, factor)
	}
	shared := padded(4*k) + padded(4*len(list))
	if of.ready.Nil() {
		shared += planesBytes(2, k, k)
	}
	all := shared
	for _, c := range list {
		all += codedBytes(c, parts.panels())
	}
	free := d.workLimit
	if free == 0 {
		free = all
	}
	if d.workLimit == 0 && all > plentyOfWork {
		free, _ = d.MemInfo()
		free -= free / 16 // for what steps and products are listed in
	}
	for first := 0; first < len(list); {
		bytes, end := shared, first
		for end < len(list) && (end == first || bytes+codedBytes(list[end], parts.panels()) <= free) {
			bytes += codedBytes(list[end], parts.panels())
			end++
		}
		w := &workshop{steps: steps{d: d}, room: d.newRoom(bytes), first: first, of: of}
		w.factor = newPlanes(2, k, k, of.ready)
		if of.ready.Nil() {
			w.factor = w.room.takePlanes(2, k, k)
			d.split(w.factor, factor, of.how)
		}
		if parts.parts > 0 {
			w.spread(list[first:end], parts)
		} else {
			for _, c := range list[first:end] {
				w.list = append(w.list, w.room.takeCoded(c))
			}
			w.measureAll()
		}
		f(w)
		w.close()
		first = end
	}
}

// measureAll finds the largest magnitude of every matrix, once of weights that several
// codings share.
func (w *workshop) measureAll() {
	type weights struct {
		at      uintptr
		columns int
	}
	known := map[weights]tensor.Tensor{}
	for i := range w.list {
		x := &w.list[i]
		key := weights{w.d.at(x.W), x.n}
		if most, ok := known[key]; ok {
			x.most = most
		} else {
			w.d.measure(x.most, x.W)
			known[key] = x.most
		}
		x.errors.most = x.most
	}
}

func (w *workshop) close() {
	w.free()
	w.d.Free(w.products)
	w.room.free()
}

// plan lists and uploads the work on all blocks. base returns what is the
// algorithm's own of the product for rows row to end, inner the same for a group of
// a block that begins before it; an algorithm may do without the latter.
func (w *workshop) plan(base func(x *coded, row, end int) productItem, inner func(x *coded, block, row, end int) productItem) {
	var products []productItem
	add := func(r *productRun, x *coded, p productItem, row, end int) {
		if p.to == 0 {
			p.to = w.d.at(x.panel)
		}
		p.m0, p.m1, p.n1, p.ld = int32(row), int32(end), int32(x.n), int32(x.n)
		p = p.of(w.d, w.factor, x.errors)
		if r.count == 0 {
			r.first = len(products)
		}
		products = append(products, p)
		r.count, r.tiles = r.count+1, max(r.tiles, p.blocks())
	}
	for b := 0; ; b++ {
		var now block
		for i := range w.list {
			x := &w.list[i]
			if b < len(x.blocks) && b >= x.inherited {
				row, end := rowsOf(x.blocks[b])
				add(&now.products, x, base(x, row, end), row, end)
			}
			if b > 0 && b == x.inherited {
				now.heirs = append(now.heirs, x)
			}
		}
		if now.products.count == 0 && len(now.heirs) == 0 {
			break
		}
		for g := 0; ; g++ {
			group := groupRun{}
			var list []stepItem
			for i := range w.list {
				x := &w.list[i]
				if b >= len(x.blocks) || b < x.inherited || g >= len(x.blocks[b]) {
					continue
				}
				first, at := x.blocks[b][0].Row, x.blocks[b][g]
				list = append(list, x.step(w.d, w.index(x, b)+g, first))
				if inner != nil && g > 0 {
					add(&group.products, x, inner(x, first, at.Row, at.Row+at.Rows), at.Row, at.Row+at.Rows)
				}
			}
			if len(list) == 0 {
				break
			}
			group.steps = w.add(list)
			now.groups = append(now.groups, group)
		}
		w.blocks = append(w.blocks, now)
	}
	w.products = table(w.d, products)
	w.upload()
}

// index returns the number of the first group of block b.
func (w *workshop) index(x *coded, b int) (n int) {
	for _, groups := range x.blocks[:b] {
		n += len(groups)
	}
	return n
}

func rowsOf(groups []exl2.Group) (row, end int) {
	last := groups[len(groups)-1]
	return groups[0].Row, last.Row + last.Rows
}

// multiply computes the products of a run.
func (w *workshop) multiply(r productRun) {
	if r.count > 0 {
		w.d.runProducts(pointer(w.d.at(w.products))+pointer(r.first*productBytes), r.count, r.tiles, w.of.planes, w.of.errors)
	}
}

// each computes what is left at the rows of a block, and has step work on its
// groups, block after block.
func (w *workshop) each(step func(r run)) {
	for _, b := range w.blocks {
		w.bequeath(b.heirs)
		w.multiply(b.products)
		for _, g := range b.groups {
			w.multiply(g.products)
			for _, r := range g.steps {
				step(r)
			}
		}
	}
}

// QuantizeWorkspace returns the bytes of workspace that GPTQ and Descend take, and
// that no other operation on moments of k inputs takes more of.
func (d *Device) QuantizeWorkspace(k, n, count int) int {
	if count == 0 {
		return 0
	}
	const tables = 1 << 20   // steps and products of a matrix
	columns, changes := n, 0 // of what is left at a block's rows
	if count == 1 {
		together := d.windowsTogether(blockTiles(n))
		if columns *= max(d.partsOf(blockTiles(n), k), together*d.partsOf(together*blockTiles(n), k)); together > 1 {
			changes = changeBytes(n)
		}
	}
	one := planesBytes(2, k, n) + padded(4*min(k, blockRows)*columns) + searchBytes(n) + changes + tables
	gram := 2 * planesBytes(2, gramRows, k)
	return max(planesBytes(2, k, k)+padded(4*k)+max(count*one, 2*planesBytes(2, k, n)), inverseBytes(k), gram)
}
