package cpu

import (
	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/parallel"
)

// Pairs changes codes of two rows at a time. What is left of a window comes of a product
// with the errors of all rows, which are kept.
func (d *Device) Pairs(list []device.Coding, f device.Factor) {
	if len(list) == 0 {
		return
	}
	x, columns := factorOf("Pairs", f, list), columnsOf(list)
	cols, reach := stripeCols(columns), x.reach()
	runChains(len(list), atOnce(columns, len(list)), width(x.k, columns), func(i int) *phase {
		c := codingOf("Pairs", list[i])
		rows := min(c.k, device.PairRows)
		data, release := d.borrowed((c.k + rows) * c.n)
		s := &pairing{reach: reach, descent: descent{
			coding: c, factor: x, release: release,
			e: stripes{k: c.k, n: c.n, cols: cols, data: data[:c.k*c.n]}, rest: stripes{k: rows, n: c.n, cols: cols, data: data[c.k*c.n:]},
		}}
		s.now[0].reset()
		s.pack()
		return s.phase(s.errors, s.window)
	})
}

// pairing is the work on one matrix: rest has the rows of a window.
type pairing struct {
	descent
	reach []float32 // of every row, the largest of its moments with others of its window
	row   int       // of the window
}

// reach returns, for every row, the largest magnitude of its moments with the others of
// its window.
func (f *factor) reach() []float32 {
	list := make([]float32, f.k)
	parallel.Runs(f.k, device.PairRows, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			first := i / device.PairRows * device.PairRows
			for j, v := range f.h[i*f.k+first : i*f.k+min(f.k, first+device.PairRows)] {
				if first+j != i {
					list[i] = max(list[i], v, -v)
				}
			}
		}
	})
	return list
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

// window works on a window.
func (s *pairing) window() *phase {
	packed, row := s.turn(), s.row
	then := s.window
	if s.row += device.PairRows; s.row < s.factor.k {
		s.pack()
	} else {
		then = s.end
	}
	return s.phase(func(i int) { s.stripe(i, row, packed.list) }, then)
}

// stripe works on a stripe of a window.
func (s *pairing) stripe(i, row int, packed []blas.Left) {
	end := min(s.factor.k, row+device.PairRows)
	rest, cols := s.rest.rows(i, 0, end-row)
	clear(rest)
	for at, part := 0, 0; at < s.factor.k; part++ {
		to := min(s.factor.k, at+blas.KUnit(s.factor.k))
		e, _ := s.e.rows(i, at, to)
		packed[part].Multiply(rest, cols, e, cols, cols)
		at = to
	}
	lo, _ := s.e.columns(i)
	e, _ := s.e.rows(i, row, end)
	var p pairColumn
	for c := range cols {
		p.take(s, rest[c:], cols, lo+c, row, end)
		if p.run(s.factor.h[row*s.factor.k+row:], s.reach[row:end], s.factor.k) {
			p.put(s, e[c:], cols, lo+c, row)
		}
	}
}
