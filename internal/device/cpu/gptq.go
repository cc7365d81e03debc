package cpu

import (
	"iter"

	"exl2/internal/device"
	kernels "exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/tensor"
)

// gptqTile is the columns that one goroutine quantizes: a group of them fits
// the first-level cache.
const gptqTile = 64

// blockRows is how many rows' errors are passed on to the rest of the matrix at
// a time: one product with a deep sum instead of several that read and write
// all of it for a shallow one.
const blockRows = 256

// A block is groups first to last of a matrix: rows row to end.
type block struct{ first, last, row, end int }

// blocks cuts the groups into blocks of at least blockRows rows, but for the last.
func (c *coding) blocks() iter.Seq[block] {
	return func(yield func(block) bool) {
		b := block{}
		for i := range c.groups {
			b.last = i
			_, b.end = c.rows(i)
			if b.end-b.row < blockRows && i+1 < len(c.groups) {
				continue
			}
			if !yield(b) {
				return
			}
			b = block{first: i + 1, row: b.end}
		}
	}
}

// factor is a device.Factor as slices.
type factor struct {
	k                int
	u, h, importance []float32
}

func factorOf(op string, f device.Factor, list []device.Coding) factor {
	k := f.U.Rows
	want(f.U.Cols == k && f.H.Rows == k && f.H.Cols == k && f.Importance.Rows*f.Importance.Cols == k, op, f.U, f.H, f.Importance)
	for _, c := range list {
		want(c.W.Rows == k && c.Groups[0].Row == 0, op, c.W, f.U)
	}
	return factor{k, floats(op, f.U), floats(op, f.H), floats(op, f.Importance)}
}

// GPTQ quantizes every matrix of the list.
func (d *Device) GPTQ(list []device.Coding, f device.Factor, loss tensor.Tensor) {
	want(loss.Rows*loss.Cols == len(list), "GPTQ", loss)
	wantType("GPTQ", loss, tensor.F64)
	x, sums := factorOf("GPTQ", f, list), elements[float64](loss)
	for i, c := range list {
		sums[i] = d.gptq(codingOf("GPTQ", c), x)
	}
}

func (d *Device) gptq(c coding, f factor) float64 {
	w, release := d.borrowed(c.k * c.n)
	defer release()
	copy(w, c.w)
	for b := range c.blocks() {
		for g := b.first; g <= b.last; g++ {
			lo, hi := c.rows(g)
			d.searchGroup(&c, g, w[lo*c.n:], f.importance[lo:hi])
			d.quantizeRows(&c, g, w[lo*c.n:hi*c.n], f)
			passOn(w[hi*c.n:b.end*c.n], f.u[lo*f.k+hi:], w[lo*c.n:hi*c.n], c.n, f.k)
		}
		passOn(w[b.end*c.n:], f.u[b.row*f.k+min(b.end, f.k-1):], w[b.row*c.n:b.end*c.n], c.n, f.k)
	}
	return sumRows(c.k, func(r int) float64 { return dotRow(w[r*c.n:(r+1)*c.n], w[r*c.n:(r+1)*c.n]) })
}

// passOn is w -= uᵀ·e for rows of n, u in rows of k.
func passOn(w, u, e []float32, n, k int) {
	if len(w) == 0 {
		return
	}
	kernels.Multiply(&simd.Product[float32]{
		M: len(w) / n, N: n, K: len(e) / n, Alpha: -1, Beta: 1, C: w, LDC: n,
		A: simd.Operand[float32]{Data: u, Row: 1, Col: k},
		B: simd.Operand[float32]{Data: e, Row: n, Col: 1},
	})
}

// quantizeRows is GPTQ within a group.
func (d *Device) quantizeRows(c *coding, g int, w []float32, f factor) {
	first, _ := c.rows(g)
	d.eachRow(c, g, w, func(grid simd.Grid, codes []uint8, row []float32, i, rows int) []float32 {
		u := f.u[(first+i)*f.k+first:]
		grid.Quantize(codes, row, row, 1/u[i])
		return u[i+1 : rows]
	})
}

// descendRows is one pass of coordinate descent over a group.
func (d *Device) descendRows(c *coding, g int, r []float32, f factor) {
	first, _ := c.rows(g)
	d.eachRow(c, g, r, func(grid simd.Grid, codes []uint8, row []float32, i, rows int) []float32 {
		h := f.h[(first+i)*f.k+first:]
		grid.Descend(codes, row, 1/h[i])
		return h[i+1 : rows]
	})
}

// eachRow calls step for every row i of a group in turn, tile of columns by
// tile; step replaces the row, and the row times the factors that it returns is
// subtracted from the rows after it.
func (d *Device) eachRow(c *coding, g int, w []float32, step func(grid simd.Grid, codes []uint8, row []float32, i, rows int) []float32) {
	first, end := c.rows(g)
	tiles(c.n, gptqTile, func(lo, hi int) {
		var buf [2 * gptqTile]float32
		grid := c.grid(g, lo, hi, buf[:])
		for i := range end - first {
			row := w[i*c.n+lo : i*c.n+hi]
			factors := step(grid, c.codes[(first+i)*c.n+lo:(first+i)*c.n+hi], row, i, end-first)
			if len(factors) > 0 {
				simd.SubtractOuter(w[(i+1)*c.n+lo:], c.n, factors, row)
			}
		}
	})
}

// Descend improves the codes by passes of coordinate descent.
func (d *Device) Descend(list []device.Coding, f device.Factor, passes int) {
	if passes == 0 {
		return
	}
	x := factorOf("Descend", f, list)
	for _, c := range list {
		d.descend(codingOf("Descend", c), x, passes)
	}
}

func (d *Device) descend(c coding, f factor, passes int) {
	e, releaseE := d.borrowed(c.k * c.n)
	defer releaseE()
	rest, release := d.borrowed(c.k * c.n) // H·(target - values)
	defer release()
	clear(rest)
	parallel(len(c.groups), func(g int) {
		buf, release := d.borrowed(2 * c.n)
		defer release()
		grid := c.grid(g, 0, c.n, buf)
		lo, hi := c.rows(g)
		for r := lo; r < hi; r++ {
			row := e[r*c.n : (r+1)*c.n]
			values(row, c.codes[r*c.n:(r+1)*c.n], grid)
			for i, v := range c.w[r*c.n : (r+1)*c.n] {
				row[i] += -1 * v
			}
		}
	})
	passOn(rest, f.h, e, c.n, f.k)
	for pass := range passes {
		for b := range c.blocks() {
			steps, from := d.descendBlock(&c, b, e, rest, f), 0
			if pass+1 == passes {
				from = b.end // nothing reads the rows before it any more
			}
			passOn(rest[from*c.n:], f.h[b.row*f.k+min(from, f.k-1):], steps, c.n, f.k)
		}
	}
}

// descendBlock improves the codes of a block and returns the changes of its
// values, rows of e, which rest does not know of yet.
func (d *Device) descendBlock(c *coding, b block, e, rest []float32, f factor) (steps []float32) {
	copy(e[b.row*c.n:b.end*c.n], rest[b.row*c.n:])
	for g := b.first; g <= b.last; g++ {
		lo, hi := c.rows(g)
		d.descendRows(c, g, e[lo*c.n:hi*c.n], f)
		passOn(e[hi*c.n:b.end*c.n], f.h[lo*f.k+min(hi, f.k-1):], e[lo*c.n:hi*c.n], c.n, f.k)
	}
	return e[b.row*c.n : b.end*c.n]
}

// SearchScale chooses the scales of group g of every matrix of the list.
func (d *Device) SearchScale(list []device.Coding, g int, importance tensor.Tensor) {
	weights := floats("SearchScale", importance)
	for _, c := range list {
		s := codingOf("SearchScale", c)
		row, rows := s.groups[g].Row, s.groups[g].Rows
		want(importance.Rows == 1 && importance.Cols >= row+rows, "SearchScale", importance, c.Codes)
		lo, _ := s.rows(g)
		d.searchGroup(&s, g, s.w[lo*s.n:], weights[row:row+rows])
	}
}

// searchGroup chooses the scales of group g for the rows w, weighed by
// importance.
func (d *Device) searchGroup(c *coding, g int, w, importance []float32) {
	d.searchScale(c.scales[g*c.n:(g+1)*c.n], c.largest[g:g+1], w, c.n, importance, c.groups[g].Bits)
}
