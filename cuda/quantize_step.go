package cuda

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
	"slices"
	"unsafe"
)

// stepItem is a group at a step of its matrix: kernels/coding.cuh has the same
// struct.
type stepItem struct {
	panel, w, codes, scales, largest, planes, top, most, sums, chosen, count, loss uintptr
	plane                                                                          int64
	tiles, row, rows, before, n, bits                                              int32
}

const stepBytes = int(unsafe.Sizeof(stepItem{}))

// A coded is a matrix that is being quantized, and the memory that it takes.
type coded struct {
	device.Coding
	k, n   int
	blocks [][]exl2.Group

	parent    *coded // whose first blocks are the same
	inherited int    // so many of them

	errors  planes        // what is left of every row that is quantized
	sheet   *sheet        // that they are a part of, if they are
	panel   tensor.Tensor // F32 [rows of the largest block, n]
	chosen  tensor.Tensor // U8 [largest scales, n]
	sums    tensor.Tensor // F64 [tiles, largest scales]
	loss    tensor.Tensor // F64 [1, blocks of columns]
	top     tensor.Tensor // F32 [1, 1]: the largest magnitude of the group
	most    tensor.Tensor // F32 [1, 1]: and of W
	counter tensor.Tensor // I32 [1, 1]
}

// rowsCols is the columns of a block of kernels/gptq_rows.cu, at least.
const rowsCols = 32

// blockRows is up to how many rows are quantized between products.
const blockRows = 256

// blocksOf cuts groups into blocks of up to blockRows rows; a larger group is one.
func blocksOf(groups []exl2.Group) (blocks [][]exl2.Group) {
	first := 0
	for i := range groups {
		if i == len(groups)-1 || groups[i+1].Row+groups[i+1].Rows-groups[first].Row > blockRows {
			blocks = append(blocks, groups[first:i+1])
			first = i + 1
		}
	}
	return blocks
}

// panelRows returns the rows of the largest block.
func panelRows(groups []exl2.Group) int {
	rows := blockRows
	for _, g := range groups {
		rows = max(rows, g.Rows)
	}
	return min(rows, groups[len(groups)-1].Row+groups[len(groups)-1].Rows-groups[0].Row)
}

// searchBytes is what choosing scales takes for a matrix of n columns.
func searchBytes(n int) int {
	return padded(gptq_search_candidates*n) + padded(8*gptq_search_candidates*(n/gptq_search_columns)) + padded(8*pieces(n, rowsCols)) + 3*padded(4)
}

// codedBytes returns the workspace of a matrix, products in so many parts.
func codedBytes(c device.Coding, parts int) int {
	k, n := c.Codes.Rows, c.Codes.Cols
	return planesBytes(2, k, n) + padded(4*parts*panelRows(c.Groups)*n) + searchBytes(n)
}

// takeSearch returns a matrix with memory for choosing scales.
func (r *room) takeSearch(c device.Coding) coded {
	n := c.Codes.Cols
	want(n%exl2.Align == 0 && c.Scales.Rows == len(c.Groups) && c.Scales.Cols == n && c.Largest.Rows*c.Largest.Cols == len(c.Groups), "quantizing", c.Codes, c.Scales, c.Largest)
	x := coded{Coding: c, k: c.Codes.Rows, n: n, chosen: r.take(tensor.U8, gptq_search_candidates, n), sums: r.take(tensor.F64, n/gptq_search_columns, gptq_search_candidates)}
	losses := padded(8 * pieces(n, rowsCols))
	zeros := r.takeZeros(tensor.U8, 1, losses+3*padded(4))
	part := func(t tensor.Type, at, n int) tensor.Tensor {
		v := tensor.New(t, 1, n, zeros.Mem)
		v.Off = zeros.Off + at
		return v
	}
	x.loss = part(tensor.F64, 0, pieces(n, rowsCols))
	x.top, x.most, x.counter = part(tensor.F32, losses, 1), part(tensor.F32, losses+padded(4), 1), part(tensor.I32, losses+2*padded(4), 1)
	return x
}

// takeCoded returns a matrix with all the memory that quantizing it takes.
func (r *room) takeCoded(c device.Coding) coded {
	x := r.takeSearch(c)
	want(c.W.Rows == x.k && c.W.Cols == x.n && c.W.Type == tensor.F32, "quantizing", c.W, c.Codes)
	x.blocks = blocksOf(c.Groups)
	x.errors = r.takePlanes(2, x.k, x.n)
	x.errors.most = x.most
	x.panel = r.take(tensor.F32, panelRows(c.Groups), x.n)
	return x
}

// step returns group i of all, in a block that begins at row first.
func (x *coded) step(d *Device, i, first int) stepItem {
	g, n := x.Groups[i], x.n
	row := g.Row - x.Groups[0].Row
	s := stepItem{
		panel: d.at(x.panel), codes: d.at(x.Codes.Slice(row, row+g.Rows)), scales: d.at(x.Scales.Slice(i, i+1)),
		largest: d.at(x.Largest.Reshape(len(x.Groups), 1).Slice(i, i+1)), planes: d.at(x.errors.mem), top: d.at(x.top), most: d.at(x.most),
		sums: d.at(x.sums), chosen: d.at(x.chosen), count: d.at(x.counter), loss: d.at(x.loss),
		plane: int64(x.errors.next), tiles: int32(x.errors.tiles),
		row: int32(g.Row), rows: int32(g.Rows), before: int32(g.Row - first), n: int32(n), bits: int32(g.Bits),
	}
	if !x.W.Nil() {
		s.w = d.at(x.W.Slice(row, row+g.Rows))
	}
	return s
}

// A run is steps that are launched together: items from first on in the table, with
// groups of as many rows.
type run struct{ first, count, rows, cols int }

// steps is the steps of matrices that go side by side, in device memory.
type steps struct {
	d     *Device
	items []stepItem
	table tensor.Tensor
}

// add adds steps and returns their runs: groups of different sizes apart.
func (s *steps) add(list []stepItem) (runs []run) {
	slices.SortStableFunc(list, func(a, b stepItem) int { return int(a.rows - b.rows) })
	for i, item := range list {
		if i == 0 || item.rows != list[i-1].rows {
			runs = append(runs, run{first: len(s.items), rows: int(item.rows)})
		}
		r := &runs[len(runs)-1]
		r.count, r.cols = r.count+1, max(r.cols, int(item.n))
		s.items = append(s.items, item)
	}
	return runs
}

func (s *steps) upload()          { s.table = table(s.d, s.items) }
func (s *steps) at(r run) pointer { return pointer(s.d.at(s.table)) + pointer(r.first*stepBytes) }
func (s *steps) free()            { s.d.Free(s.table) }
func (r run) over(threads int) launch {
	return launch{blocks: dim{x: pieces(r.cols, threads), y: r.count}, threads: dim{x: threads}}
}

// stagedRows is up to how many rows of a group the search keeps in shared memory.
const stagedRows = 256

// search chooses the scales of the groups of a run.
func (s *steps) search(r run, importance tensor.Tensor) {
	l := r.over(gptq_search_columns)
	warps := 4
	if l.blocks.x*r.count < 4*s.d.sms {
		warps = 13 // two largest scales for each
	}
	l.threads.x = 32 * warps
	if r.rows > stagedRows {
		s.d.gptq_search_direct(l, s.at(r), importance)
		return
	}
	l.shared = 4 * r.rows * (gptq_search_columns + 1)
	s.d.gptq_search_staged(l, s.at(r), importance)
}

// measureTop finds the largest magnitudes of the groups of a run.
func (s *steps) measureTop(r run) { s.d.gptq_feed_top(r.over(128), s.at(r)) }

// feed passes what the rows of a block before the groups of a run hold on to them.
func (s *steps) feed(r run, factor tensor.Tensor) {
	s.d.gptq_feed(r.over(128), s.at(r), factor, int32(factor.Cols))
}

// overRows returns the launch of a kernel that quantizes the rows of a run, a column
// a thread: the more of them a block, the less often a factor is read.
func (s *steps) overRows(r run) launch {
	if l := r.over(2 * rowsCols); l.blocks.x*r.count >= 2*s.d.sms {
		return l
	}
	return r.over(rowsCols)
}

// SearchScale chooses the scales of group g of every matrix of the list.
func (d *Device) SearchScale(list []device.Coding, g int, importance tensor.Tensor) {
	if len(list) == 0 {
		return
	}
	bytes := 0
	for _, c := range list {
		bytes += searchBytes(c.Codes.Cols)
	}
	r := d.newRoom(bytes)
	defer r.free()
	s := steps{d: d}
	var items []stepItem
	for _, c := range list {
		x := r.takeSearch(c)
		group := c.Groups[g]
		item := x.step(d, g, group.Row)
		item.panel = item.w
		items = append(items, item)
	}
	runs := s.add(items)
	s.upload()
	defer s.free()
	for _, run := range runs {
		s.measureTop(run)
		s.search(run, importance)
	}
}
