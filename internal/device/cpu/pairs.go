package cpu

import (
	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/exl2"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// Pairs changes codes of two rows at a time. What is left of a window comes of a product
// with the errors of all rows, which are kept.
func (d *Device) Pairs(list []device.Coding, f device.Factor) {
	if len(list) == 0 {
		return
	}
	x, columns := factorOf("Pairs", f, list), columnsOf(list)
	cols, limits := stripeCols(columns), f.Ready
	if limits.Nil() {
		limits = d.ReadyToDescend(f)
	}
	ready := floats("Pairs", limits)
	runChains(len(list), atOnce(columns, len(list)), func(i int) *phase {
		c := codingOf("Pairs", list[i])
		rows := min(c.k, device.PairRows)
		data, release := d.borrowed((c.k + rows) * c.n)
		s := &pairing{reach: ready[:x.k], diagonal: ready[x.k:], tables: c.tables(), at: pairCols(columns), descent: descent{
			coding: c, factor: x, together: len(list), release: release,
			e: stripes{k: c.k, n: c.n, cols: cols, data: data[:c.k*c.n]}, rest: stripes{k: rows, n: c.n, cols: cols, data: data[c.k*c.n:]},
		}}
		s.now[0].reset()
		s.pack()
		return s.inGroups(s.errors, s.product)
	})
}

// pairCols returns how many columns one goroutine works on at a time, of so many that all
// matrices have together. It divides the columns of a stripe.
func pairCols(columns int) int {
	if columns < 8*pairTasks {
		return 2
	}
	return 8
}

// pairTasks is how many tasks keep many cores busy.
const pairTasks = manyTasks

// pairing is the work on one matrix: rest has the rows of a window.
type pairing struct {
	descent
	reach    []float32 // of every row, the largest of its moments with others of its window
	diagonal []float32
	tables   [][16]float32 // scales by group
	at       int           // how many columns a task has
	row      int           // of the window
}

// tables returns the scales that each group can use.
func (c *coding) tables() [][16]float32 {
	list := make([][16]float32, len(c.groups))
	for g := range list {
		for i, s := range exl2.ScaleTable(c.largest[g]) {
			list[g][i] = s.Float32()
		}
	}
	return list
}

// ReadyToDescend returns, [2, k], of every row the largest magnitude of its moments with
// the others of its window, and the diagonal. What Descend packs of H stays in the caches.
func (d *Device) ReadyToDescend(f device.Factor) tensor.Tensor {
	k, h := f.H.Rows, floats("ReadyToDescend", f.H)
	ready := d.Alloc(tensor.F32, 2, k)
	reach, diagonal := floats("ReadyToDescend", ready)[:k], floats("ReadyToDescend", ready)[k:]
	parallel.Runs(k, rowsAtOnce(device.PairRows), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			diagonal[i] = h[i*(k+1)]
			first := i / device.PairRows * device.PairRows
			for j, v := range h[i*k+first : i*k+min(k, first+device.PairRows)] {
				if first+j != i {
					reach[i] = max(reach[i], v, -v)
				}
			}
		}
	})
	return ready
}

// pack packs for the window's products.
func (s *pairing) pack() {
	end := min(s.factor.k, s.row+device.PairRows)
	for from := 0; from < s.factor.k; {
		to := min(s.factor.k, from+blas.KUnit(s.factor.k))
		s.now[0].add(s.passOn(s.now[0].next(), s.factor.h, from, to, s.row, end))
		from = to
	}
}

// product computes what is left of a window, stripe by stripe.
func (s *pairing) product() *phase {
	packed, rows := s.turn(), min(s.factor.k-s.row, device.PairRows)
	return s.parted(&packed.list[0], s.now[0].calls, func(i, part, parts int) {
		rest, cols := s.rest.rows(i, 0, rows)
		lo, hi := packed.list[0].Rows(part, parts)
		clear(rest[lo*cols : hi*cols])
		for at, step := 0, 0; at < s.factor.k; step++ {
			to := min(s.factor.k, at+blas.KUnit(s.factor.k))
			e, _ := s.e.rows(i, at, to)
			packed.list[step].MultiplyPart(part, parts, rest, cols, e, cols, cols)
			at = to
		}
	}, s.window)
}

// window works on the columns of a window.
func (s *pairing) window() *phase {
	row := s.row
	rows, then := min(s.factor.k-row, device.PairRows), s.product
	if s.row += rows; s.row < s.factor.k {
		s.pack()
	} else {
		then = s.end
	}
	tasks, packing := (s.n+s.at-1)/s.at, &s.now[0]
	return &phase{tasks: tasks + len(packing.calls), then: then, task: func(i int) {
		if i < tasks {
			s.columns(i*s.at, min(s.n, (i+1)*s.at), row, rows)
			return
		}
		packing.pack(i - tasks)
	}}
}

// columns works on columns lo to hi of a window, which are of one stripe.
func (s *pairing) columns(lo, hi, row, rows int) {
	stripe := lo / s.e.cols
	first, _ := s.e.columns(stripe)
	rest, stride := s.rest.rows(stripe, 0, rows)
	e, _ := s.e.rows(stripe, row, row+rows)
	p := pairColumn{pairing: s, row: row, rows: rows, stride: stride}
	for c := lo; c < hi; c++ {
		p.col, p.e = c, e[c-first:]
		p.take(rest[c-first:])
		p.run()
	}
}
