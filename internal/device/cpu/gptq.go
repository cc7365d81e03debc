package cpu

import (
	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/tensor"
)

// GPTQ quantizes every matrix of the list. Stripes of columns only wait for each
// other where a group's largest scale is chosen.
func (d *Device) GPTQ(list []device.Coding, f device.Factor, loss tensor.Tensor) {
	want(loss.Rows*loss.Cols == len(list), "GPTQ", loss)
	wantType("GPTQ", loss, tensor.F64)
	if len(list) == 0 {
		return
	}
	x, sums, columns := factorOf("GPTQ", f, list), elements[float64](loss), columnsOf(list)
	runChains(len(list), atOnce(columns, len(list)), func(i int) *phase {
		c := codingOf("GPTQ", list[i])
		w, release := d.borrowed(c.k * c.n)
		g := &gptq{
			coding: c, factor: x, loss: &sums[i], search: newScaleSearch(c.n),
			w: stripes{k: c.k, n: c.n, cols: stripeCols(columns), data: w}, release: release,
		}
		for b := range blocks(g.groups) {
			g.blocks = append(g.blocks, b)
		}
		return g.begin()
	})
}

// gptq is the work on one matrix. Rows of w that are quantized hold their errors.
type gptq struct {
	coding
	factor
	w       stripes
	release func()
	search  *scaleSearch
	blocks  []block // that are left
	g       int     // the group at hand
	on      blas.Left
	sums    []float64 // of squared errors, by row
	loss    *float64
}

// begin copies W and measures the first group.
func (s *gptq) begin() *phase {
	return &phase{tasks: s.w.count(), then: s.tryLikely, task: func(i int) {
		s.w.take(i, s.coding.w)
		s.measure(i)
	}}
}

// measure measures the group at hand.
func (s *gptq) measure(i int) {
	lo, hi := s.w.columns(i)
	first, end := s.rows(s.g)
	rows, cols := s.w.rows(i, first, end)
	s.search.measure(lo, hi, rows, cols, s.importance[first:end], s.groups[s.g].Bits)
}

// tryLikely tries the likely largest scale, and packs what the group's errors
// will be multiplied by: for the rows after it in the block, or for the rows
// after the block.
func (s *gptq) tryLikely() *phase {
	s.search.tryLikely(s.groups[s.g].Bits)
	first, end := s.rows(s.g)
	b := s.blocks[0]
	calls := 0
	if s.g < b.last {
		calls = s.passOn(&s.on, s.u, first, end, end, b.end)
	} else {
		calls = s.passOn(&s.on, s.u, b.row, b.end, b.end, s.factor.k)
	}
	n := s.w.count()
	return &phase{tasks: n + calls, then: s.tryRest, task: func(i int) {
		if i >= n {
			s.on.Pack(i - n)
			return
		}
		lo, hi := s.w.columns(i)
		s.search.try(lo, hi)
		s.search.bound(lo, hi)
	}}
}

// tryRest tries the other largest scales.
func (s *gptq) tryRest() *phase {
	s.search.tryRest()
	return &phase{tasks: s.w.count(), then: s.quantize, task: func(i int) { s.search.try(s.w.columns(i)) }}
}

// quantize quantizes the group and passes its errors on.
func (s *gptq) quantize() *phase {
	best, g, b := s.search.best(), s.g, s.blocks[0]
	s.largest[g] = s.search.candidates[best].largest
	s.g++
	if g == b.last {
		s.blocks = s.blocks[1:]
	}
	then := s.tryLikely
	if len(s.blocks) == 0 {
		then = s.sum
	}
	return &phase{tasks: s.w.count(), then: then, task: func(i int) {
		lo, hi := s.w.columns(i)
		copy(s.scales[g*s.n+lo:g*s.n+hi], s.search.chosen[best][lo:hi])
		s.w.each(i, &s.coding, g, s.row)
		s.pass(i, g, b)
		if s.g < len(s.groups) {
			s.measure(i)
		}
	}}
}

// row quantizes one row, and returns how its errors reach the group's others.
func (s *gptq) row(grid simd.Grid, codes []uint8, row []float32, r, end int) []float32 {
	u := s.u[r*s.factor.k : r*s.factor.k+end]
	grid.Quantize(codes, row, row, 1/u[r])
	return u[r+1:]
}

// pass passes the errors of group g on: to the rest of the block, or those of
// the whole block to the rest of the matrix.
func (s *gptq) pass(i, g int, b block) {
	first, end := s.rows(g)
	last := b.end
	if g == b.last {
		first, last = b.row, s.factor.k
	}
	errors, cols := s.w.rows(i, first, end)
	rest, _ := s.w.rows(i, end, last)
	s.on.Multiply(rest, cols, errors, cols, cols)
}

// sum adds up the loss: row by row, in the order of columns.
func (s *gptq) sum() *phase {
	s.sums = make([]float64, (s.factor.k+sumRows-1)/sumRows*sumRows)
	return &phase{tasks: (s.factor.k + rowTile - 1) / rowTile, then: s.end, task: func(t int) {
		for r := t * rowTile; r < min(s.factor.k, (t+1)*rowTile); r += sumRows {
			for i := range s.w.count() {
				s.sumOf(i, r)
			}
		}
	}}
}

// sumRows is the rows that are summed side by side: each sum waits for its last addition.
const sumRows = 4

// sumOf adds the squares of a stripe's errors to those of rows from r on.
func (s *gptq) sumOf(stripe, r int) {
	if r+sumRows > s.factor.k {
		for ; r < s.factor.k; r++ {
			row, _ := s.w.rows(stripe, r, r+1)
			for _, e := range row {
				s.sums[r] += float64(e) * float64(e)
			}
		}
		return
	}
	all, n := s.w.rows(stripe, r, r+sumRows)
	a, b, c, d := all[:n], all[n:2*n], all[2*n:3*n], all[3*n:4*n]
	sums := s.sums[r : r+sumRows]
	sa, sb, sc, sd := sums[0], sums[1], sums[2], sums[3]
	for i := range a {
		ea, eb, ec, ed := float64(a[i]), float64(b[i]), float64(c[i]), float64(d[i])
		sa, sb, sc, sd = sa+ea*ea, sb+eb*eb, sc+ec*ec, sd+ed*ed
	}
	sums[0], sums[1], sums[2], sums[3] = sa, sb, sc, sd
}

func (s *gptq) end() *phase {
	*s.loss = 0
	for _, e := range s.sums[:s.factor.k] {
		*s.loss += e
	}
	s.on.Release()
	s.release()
	return nil
}
