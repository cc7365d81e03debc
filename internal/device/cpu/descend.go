package cpu

import (
	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
)

// Descend improves the codes by passes of coordinate descent. Stripes of columns
// only wait for each other because what they multiply by is packed for all.
func (d *Device) Descend(list []device.Coding, f device.Factor, passes int) {
	if passes == 0 || len(list) == 0 {
		return
	}
	x, columns := factorOf("Descend", f, list), columnsOf(list)
	cols := stripeCols(columns)
	runChains(len(list), atOnce(columns, len(list)), func(i int) *phase {
		c := codingOf("Descend", list[i])
		data, release := d.borrowed(2 * c.k * c.n)
		s := &descent{
			coding: c, factor: x, passes: passes, together: len(list), release: release,
			e: stripes{k: c.k, n: c.n, cols: cols, data: data[:c.k*c.n]}, rest: stripes{k: c.k, n: c.n, cols: cols, data: data[c.k*c.n:]},
		}
		return s.begin()
	})
}

// descent is the work on one matrix.
type descent struct {
	coding
	factor
	e        stripes // W - values, then the changes of values
	rest     stripes // H·(W - values)
	release  func()
	passes   int
	together int     // how many matrices are worked on at once
	blocks   []block // of this pass that are left
	depth    int     // of the sums of rest that are done
	now      [2]lefts
}

// lefts is what is packed for one phase: the left sides of products.
type lefts struct {
	list  []blas.Left
	used  int
	calls []call
}

// A call packs a part of a left side.
type call struct{ left, part int }

// begin computes W - values, and packs for the first product.
func (s *descent) begin() *phase {
	s.now[0].reset()
	s.packDepth(&s.now[0])
	return s.inGroups(s.difference, s.multiply)
}

// inGroups is a task for every stripe, or several for its groups where stripes are few,
// beside packing.
func (s *descent) inGroups(task func(i, first, last int), then func() *phase) *phase {
	n, groups := s.e.count(), len(s.groups)
	parts := max(1, min(groups, manyTasks/(s.together*n)))
	packing := &s.now[0]
	return &phase{tasks: n*parts + len(packing.calls), then: then, task: func(i int) {
		if i < n*parts {
			task(i/parts, groups*(i%parts)/parts, groups*(i%parts+1)/parts)
			return
		}
		packing.pack(i - n*parts)
	}}
}

// reset forgets what is packed.
func (l *lefts) reset() { l.used, l.calls = 0, l.calls[:0] }

// next returns a left side to set.
func (l *lefts) next() *blas.Left {
	if l.used == len(l.list) {
		l.list = append(l.list, blas.Left{})
	}
	l.used++
	return &l.list[l.used-1]
}

// add adds the calls that pack the last left side.
func (l *lefts) add(parts int) {
	for p := range parts {
		l.calls = append(l.calls, call{l.used - 1, p})
	}
}

// phase is a task for every stripe, beside the packing that now[0] has been set
// to, for the phase after.
func (s *descent) phase(task func(i int), then func() *phase) *phase {
	n, packing := s.e.count(), &s.now[0]
	return &phase{tasks: n + len(packing.calls), then: then, task: func(i int) {
		if i < n {
			task(i)
			return
		}
		packing.pack(i - n)
	}}
}

// parted is tasks for parts of a product with a left side like l, several for every stripe
// where there are few, beside calls that pack.
func (s *descent) parted(l *blas.Left, calls []call, task func(i, part, parts int), then func() *phase) *phase {
	parts := l.Parts(manyTasks / (s.together * s.e.count()))
	n, packing := parts*s.e.count(), &s.now[0]
	return &phase{tasks: n + len(calls), then: then, task: func(i int) {
		if i < n {
			task(i/parts, i%parts, parts)
			return
		}
		packing.pack(i - n)
	}}
}

// manyTasks is how many tasks keep many cores busy.
const manyTasks = 32

// pack makes a call.
func (l *lefts) pack(i int) { l.list[l.calls[i].left].Pack(l.calls[i].part) }

// turn makes what is packed what the next phase uses, and returns it.
func (s *descent) turn() *lefts {
	s.now[0], s.now[1] = s.now[1], s.now[0]
	s.now[0].reset()
	return &s.now[1]
}

// difference computes groups of a stripe of values - W, and clears rest.
func (s *descent) difference(i, first, last int) {
	s.errors(i, first, last)
	from, _ := s.rows(first)
	_, to := s.rows(last - 1)
	rest, _ := s.rest.rows(i, from, to)
	clear(rest)
}

// errors computes groups of a stripe of values - W.
func (s *descent) errors(i, first, last int) {
	lo, hi := s.e.columns(i)
	var buf [2 * maxStripe]float32
	for g := first; g < last; g++ {
		grid := s.grid(g, lo, hi, buf[:])
		first, end := s.rows(g)
		rows, cols := s.e.rows(i, first, end)
		for r := first; r < end; r++ {
			row := rows[(r-first)*cols : (r-first+1)*cols]
			values(row, s.codes[r*s.n+lo:r*s.n+hi], grid)
			for c, v := range s.w[r*s.n+lo : r*s.n+hi] {
				row[c] -= v
			}
		}
	}
}

// packDepth packs for the next part of the sums of H·(W - values).
func (s *descent) packDepth(l *lefts) {
	end := min(s.factor.k, s.depth+blas.KUnit(s.factor.k))
	l.add(s.passOn(l.next(), s.factor.h, s.depth, end, 0, s.factor.k))
}

// multiply adds a part of the sums of H·(W - values).
func (s *descent) multiply() *phase {
	packed, from := s.turn(), s.depth
	end := min(s.factor.k, from+blas.KUnit(s.factor.k))
	then := s.multiply
	if s.depth = end; s.depth < s.factor.k {
		s.packDepth(&s.now[0])
	} else {
		then = s.improve
		s.packBlock(&s.now[0])
	}
	return s.parted(&packed.list[0], s.now[0].calls, func(i, part, parts int) {
		e, cols := s.e.rows(i, from, end)
		rest, _ := s.rest.rows(i, 0, s.factor.k)
		packed.list[0].MultiplyPart(part, parts, rest, cols, e, cols, cols)
	}, then)
}

// packBlock turns to the next block, of the next pass after the last, and packs
// for it: for every group but the last what lies behind it in the block, then
// for the block.
func (s *descent) packBlock(l *lefts) {
	if len(s.blocks) == 0 {
		for b := range blocks(s.groups) {
			s.blocks = append(s.blocks, b)
		}
	}
	b := s.blocks[0]
	for g := b.first; g < b.last; g++ {
		first, end := s.rows(g)
		l.add(s.passOn(l.next(), s.factor.h, first, end, end, b.end))
	}
	l.add(s.passOn(l.next(), s.factor.h, b.row, b.end, s.from(b), s.factor.k))
}

// from returns the first row that must learn of the changes of b: in the last
// pass nothing reads the rows before it any more.
func (s *descent) from(b block) int {
	if s.passes == 1 {
		return b.end
	}
	return 0
}

// improve improves a block, and passes the changes of its values on.
func (s *descent) improve() *phase {
	packed, b := s.turn(), s.blocks[0]
	from, then := s.from(b), s.improve
	if s.blocks = s.blocks[1:]; len(s.blocks) == 0 {
		s.passes--
	}
	if s.passes > 0 {
		s.packBlock(&s.now[0])
	} else {
		then = s.end
	}
	last := &packed.list[b.last-b.first]
	return s.phase(func(i int) { s.improveStripe(i, b, packed.list) }, func() *phase {
		return s.parted(last, nil, func(i, part, parts int) {
			steps, cols := s.e.rows(i, b.row, b.end)
			rest, _ := s.rest.rows(i, from, s.factor.k)
			last.MultiplyPart(part, parts, rest, cols, steps, cols, cols)
		}, then)
	})
}

// improveStripe improves a stripe of a block, whose rows learn of changes in it.
func (s *descent) improveStripe(i int, b block, packed []blas.Left) {
	steps, cols := s.e.rows(i, b.row, b.end)
	old, _ := s.rest.rows(i, b.row, b.end)
	copy(steps, old)
	for g := b.first; g <= b.last; g++ {
		s.e.each(i, &s.coding, g, s.row)
		if first, end := s.rows(g); g < b.last {
			changes, _ := s.e.rows(i, first, end)
			after, _ := s.e.rows(i, end, b.end)
			packed[g-b.first].Multiply(after, cols, changes, cols, cols)
		}
	}
}

// row improves one row, and returns how its changes reach the group's others.
func (s *descent) row(grid simd.Grid, codes []uint8, row []float32, r, end int) []float32 {
	h := s.factor.h[r*s.factor.k : r*s.factor.k+end]
	grid.Descend(codes, row, 1/h[r])
	return h[r+1:]
}

func (s *descent) end() *phase {
	for _, packed := range s.now {
		for i := range packed.list {
			packed.list[i].Release()
		}
	}
	s.release()
	return nil
}
