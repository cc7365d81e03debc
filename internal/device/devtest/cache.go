package devtest

import (
	"fmt"
	"math"

	"exl2/internal/device"
)

// A run is span consecutive positions of a sequence.
type run struct{ seq, pos int }

// layout is where the rows of a pass and the pages of a cache are.
type layout struct {
	runs                []run
	span                int
	pageRows            int
	sequences, seqPages int // of the table
	dim, kvHeads        int
}

func (l layout) rows() int { return len(l.runs) * l.span }

// table gives the sequences pages that are not in order.
func (l layout) table() []int32 { return shuffled(3, l.sequences*l.seqPages) }

// batch allocates the positions of the rows.
func (l layout) batch(f *fixture) device.Batch {
	var pos, seq []int32
	for _, r := range l.runs {
		for i := range l.span {
			pos, seq = append(pos, int32(r.pos+i)), append(seq, int32(r.seq))
		}
	}
	return device.Batch{Pos: f.ints("pos", 1, l.rows(), pos), Seq: f.ints("seq", 1, l.rows(), seq), Span: l.span}
}

// cacheRow returns the row of the cache that holds a position.
func (l layout) cacheRow(table []int32, seq, pos int) int {
	return int(table[seq*l.seqPages+pos/l.pageRows])*l.pageRows + pos%l.pageRows
}

func (l layout) cols() int { return l.kvHeads * l.dim }

func (l layout) cacheRows() int { return l.sequences * l.seqPages * l.pageRows }

func storeCases() (cases []testCase) {
	for _, l := range []layout{
		{span: 1, pageRows: 256, sequences: 1, seqPages: 1, dim: 64, kvHeads: 1},
		{runs: []run{{0, 0}}, span: 1, pageRows: 256, sequences: 1, seqPages: 2, dim: 128, kvHeads: 8},
		{runs: []run{{0, 250}}, span: 12, pageRows: 256, sequences: 1, seqPages: 3, dim: 128, kvHeads: 8},
		{runs: []run{{2, 511}, {0, 512}, {1, 0}}, span: 1, pageRows: 256, sequences: 3, seqPages: 3, dim: 80, kvHeads: 4},
		{runs: []run{{1, 3}, {0, 30}}, span: 65, pageRows: 16, sequences: 2, seqPages: 9, dim: 96, kvHeads: 3},
		{runs: []run{{0, 5}, {1, 9}}, span: 7, pageRows: 32, sequences: 2, seqPages: 1, dim: 9, kvHeads: 3},
	} {
		name := fmt.Sprintf("runs=%v span=%d page=%d cols=%d", l.runs, l.span, l.pageRows, l.cols())
		cases = append(cases, testCase{name, exact, func(f *fixture) func(device.Device) {
			c := device.Cache{
				K: f.inOut("K", activation, l.cacheRows(), l.cols(), noise(1)), V: f.inOut("V", activation, l.cacheRows(), l.cols(), noise(2)),
				Table: f.ints("table", l.sequences, l.seqPages, l.table()), PageRows: l.pageRows,
			}
			k, v := f.in("k", activation, l.rows(), l.cols(), noise(3)), f.in("v", activation, l.rows(), l.cols(), noise(4))
			b := l.batch(f)
			return func(d device.Device) { d.Store(c, k, v, b) }
		}})
	}
	return cases
}

// attendLimit is that of attention: weights may be rounded to fp16 before they
// multiply the values, which are up to 1, and so may the running maximum's
// corrections.
var attendLimit = limit{abs: 1e-3, rel: 2 * ulp, nmse: 1e-6, why: "weights may be rounded to fp16; one rounding of the result"}

type attendCase struct {
	heads, kvHeads, dim int
	runs                []run
	span                int
	window              int
	softcap             float32
	sharp               float32 // scores are this many times those of noise
	pageRows            int     // 0 means 256
}

func attendCases() (cases []testCase) {
	one := func(pos int) []run { return []run{{0, pos}} }
	list := []attendCase{
		{heads: 4, kvHeads: 4, dim: 64, span: 1},
		{heads: 1, kvHeads: 1, dim: 64, runs: one(0), span: 1},
		{heads: 1, kvHeads: 1, dim: 128, runs: one(1), span: 2},
		{heads: 12, kvHeads: 4, dim: 64, runs: []run{{1, 100}, {0, 300}}, span: 5, window: 64, softcap: 20},
		{heads: 32, kvHeads: 8, dim: 128, runs: one(2048), span: 1},
		{heads: 8, kvHeads: 2, dim: 128, runs: one(0), span: 513},
		{heads: 8, kvHeads: 2, dim: 128, runs: one(900), span: 130, pageRows: 32},
		{heads: 8, kvHeads: 8, dim: 128, runs: []run{{3, 0}, {1, 255}, {0, 256}, {2, 3000}}, span: 1},
		{heads: 16, kvHeads: 2, dim: 128, runs: []run{{0, 17}, {1, 1000}, {2, 3}, {3, 511}, {4, 512}, {5, 513}, {6, 63}, {7, 64}}, span: 1},
		{heads: 8, kvHeads: 4, dim: 256, runs: []run{{0, 1500}, {1, 20}}, span: 3, window: 1024, softcap: 50},
		{heads: 4, kvHeads: 4, dim: 128, runs: one(700), span: 64, sharp: 200},
		{heads: 4, kvHeads: 4, dim: 128, runs: one(0), span: 70, sharp: -1},
		{heads: 4, kvHeads: 1, dim: 128, runs: one(600), span: 40, window: 1},
		{heads: 4, kvHeads: 1, dim: 128, runs: one(600), span: 40, window: 5000},
	}
	for i, dim := range []int{64, 80, 96, 128, 256} {
		for j, group := range []int{1, 2, 4, 8} {
			c := attendCase{heads: 2 * group, kvHeads: 2, dim: dim, span: []int{1, 2, 7, 16, 33, 64, 100, 200}[(i+2*j)%8]}
			c.runs = one([]int{0, 5, 255, 256, 1000, 3000}[(i*4+j)%6])
			if c.window = 0; (i+j)%3 == 1 {
				c.window = 50 * (j + 1)
			}
			if (i+j)%4 == 2 {
				c.softcap = 30
			}
			list = append(list, c)
			c.span, c.runs = 1, []run{{0, 2999 - 17*i}, {1, 40 * j}}
			list = append(list, c)
		}
	}
	for _, c := range list {
		cases = append(cases, c.testCase())
	}
	return cases
}

func (c attendCase) testCase() testCase {
	if c.pageRows == 0 {
		c.pageRows = 256
	}
	if c.sharp == 0 {
		c.sharp = 1
	}
	name := fmt.Sprintf("heads=%d/%d dim=%d runs=%v span=%d window=%d cap=%v sharp=%v page=%d", c.heads, c.kvHeads, c.dim, c.runs, c.span, c.window, c.softcap, c.sharp, c.pageRows)
	return testCase{name, attendLimit, c.build}
}

func (c attendCase) layout() layout {
	l := layout{runs: c.runs, span: c.span, pageRows: c.pageRows, sequences: max(len(c.runs), 1), dim: c.dim, kvHeads: c.kvHeads}
	for _, r := range c.runs {
		l.seqPages = max(l.seqPages, (r.pos+c.span)/c.pageRows+2) // one more than is used
	}
	l.seqPages = max(l.seqPages, 1)
	return l
}

// build fills the positions that the rows see; the others hold NaN, so that a
// weight of zero is not enough to hide them.
func (c attendCase) build(f *fixture) func(device.Device) {
	l := c.layout()
	table, seen := l.table(), make([]bool, l.cacheRows())
	for _, r := range c.runs {
		for pos := range r.pos + c.span {
			seen[l.cacheRow(table, r.seq, pos)] = true
		}
	}
	visible := func(v values) values {
		return func(i int) float32 {
			if !seen[i/l.cols()] {
				return nan
			}
			return v(i)
		}
	}
	cache := device.Cache{
		K: f.in("K", activation, l.cacheRows(), l.cols(), visible(noise(1))), V: f.in("V", activation, l.cacheRows(), l.cols(), visible(noise(2))),
		Table: f.ints("table", l.sequences, l.seqPages, table), PageRows: c.pageRows,
	}
	q := f.inOut("q", activation, l.rows(), c.heads*c.dim, noise(3))
	b := l.batch(f)
	a := device.Attend{Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.dim, Softcap: c.softcap, Window: c.window}
	a.Scale = 3 * c.sharp / float32(math.Sqrt(float64(c.dim)))
	return func(d device.Device) { d.Attend(q, q, cache, a, b) }
}
