package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
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
	reach               int  // device.Batch.Reach
	advances            bool // positions are written
}

func (l layout) rows() int { return len(l.runs) * l.span }

// positions is how many a sequence has room for.
func (l layout) positions() int { return l.seqPages * l.pageRows }

func (l layout) cols() int { return l.kvHeads * l.dim }

// shape is that of a cache of two layers with a page more than the table names.
func (l layout) shape() device.CacheShape {
	return device.CacheShape{Layers: 2, Pages: l.sequences*l.seqPages + 1, PageRows: l.pageRows, K: l.cols(), V: l.cols()}
}

// table allocates the sequences' pages, which are not in order.
func (l layout) table(f *fixture) tensor.Tensor {
	return f.ints("table", l.sequences, l.seqPages, shuffled(3, l.sequences*l.seqPages))
}

// batch allocates the positions of the rows.
func (l layout) batch(f *fixture, table tensor.Tensor) device.Batch {
	var pos, seq []int32
	for _, r := range l.runs {
		for i := range l.span {
			pos, seq = append(pos, int32(r.pos+i)), append(seq, int32(r.seq))
		}
	}
	ints := f.ints
	if l.advances {
		ints = f.intsOut
	}
	return device.Batch{Pos: ints("pos", 1, l.rows(), pos), Seq: f.ints("seq", 1, l.rows(), seq), Table: table, Span: l.span, Reach: l.reach}
}

// reached is one more than the highest position of a row.
func (l layout) reached() (n int) {
	for _, r := range l.runs {
		n = max(n, r.pos+l.span)
	}
	return n
}

// whole is the layout of a pass over all positions of all sequences.
func (l layout) whole() layout {
	l.runs, l.span = nil, l.positions()
	for s := range l.sequences {
		l.runs = append(l.runs, run{s, 0})
	}
	return l
}

// fill stores keys and values at all positions: those of position p of sequence
// s are row s·positions + p. The cache's other layer gets them crosswise.
func (l layout) fill(f *fixture, c device.Cache, layer int, table tensor.Tensor, k, v values) {
	all := l.whole()
	b := all.batch(f, table)
	keys, vals := f.in("all keys", activation, all.rows(), l.cols(), k), f.in("all values", activation, all.rows(), l.cols(), v)
	f.prepare(func() {
		f.dev.Store(c, 1-layer, vals, keys, b)
		f.dev.Store(c, layer, keys, vals, b)
	})
}

// storeCases store rows into a layer of a full cache, and look at all of its
// positions by attention to each position and the one before, which also sees
// keys, and to each position alone.
func storeCases() (cases []testCase) {
	for i, l := range []layout{
		{span: 1, pageRows: 256, sequences: 1, seqPages: 1, dim: 64, kvHeads: 1},
		{runs: []run{{0, 0}}, span: 1, pageRows: 256, sequences: 1, seqPages: 2, dim: 128, kvHeads: 8},
		{runs: []run{{0, 250}}, span: 12, pageRows: 256, sequences: 1, seqPages: 3, dim: 128, kvHeads: 8},
		{runs: []run{{2, 511}, {0, 512}, {1, 0}}, span: 1, pageRows: 256, sequences: 3, seqPages: 3, dim: 80, kvHeads: 4},
		{runs: []run{{1, 3}, {0, 30}}, span: 65, pageRows: 16, sequences: 2, seqPages: 9, dim: 96, kvHeads: 3},
		{runs: []run{{0, 5}, {1, 9}}, span: 7, pageRows: 32, sequences: 2, seqPages: 1, dim: 64, kvHeads: 3},
	} {
		for _, window := range []int{1, 2} {
			name := fmt.Sprintf("runs=%v span=%d page=%d cols=%d window=%d", l.runs, l.span, l.pageRows, l.cols(), window)
			cases = append(cases, testCase{name: name, limit: attendLimit, build: func(f *fixture) func(device.Device) {
				layer, all, table := i%2, l.whole(), l.table(f)
				c := f.cache(l.shape())
				l.fill(f, c, layer, table, noise(1), noise(2))
				k, v := f.in("k", activation, l.rows(), l.cols(), noise(3)), f.in("v", activation, l.rows(), l.cols(), noise(4))
				y, q := f.out("y", activation, all.rows(), l.cols()), f.in("q", activation, all.rows(), l.cols(), noise(5))
				b, everything := l.batch(f, table), all.batch(f, table)
				a := device.Attend{Heads: l.kvHeads, KVHeads: l.kvHeads, HeadDim: l.dim, Scale: 0.5, Window: window}
				return func(d device.Device) {
					d.Store(c, layer, k, v, b)
					d.Attend(y, q, c, layer, a, everything)
				}
			}})
		}
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
	sinks               bool
	temperature         float32
	values              bool // of Mix: have norms of heads, too
	late                bool // of Mix: norms follow the rotation
	whole               bool // of Mix: norms are of all heads together
	absent              bool // of Mix: keys and values are stored already
	room                int  // of sequences, if it is more than rows need, whose last position is said then
	told                bool // runs: what all positions are below is said
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
		{heads: 4, kvHeads: 2, dim: 128, runs: one(300), span: 300, window: 100},
		{heads: 2, kvHeads: 1, dim: 64, runs: one(1500), span: 200, window: 1024, softcap: 30},
		{heads: 32, kvHeads: 4, dim: 512, runs: []run{{1, 150}, {0, 0}}, span: 1},
		{heads: 8, kvHeads: 1, dim: 512, runs: one(90), span: 70, pageRows: 32},
		{heads: 16, kvHeads: 1, dim: 512, runs: []run{{0, 1000}, {1, 7}}, span: 65, pageRows: 16, sharp: 200},
		{heads: 4, kvHeads: 2, dim: 512, runs: one(2500), span: 64, window: 1000, softcap: 30},
		{heads: 12, kvHeads: 1, dim: 320, runs: []run{{0, 5}, {1, 130}}, span: 3, window: 40, softcap: 20},
		{heads: 3, kvHeads: 3, dim: 298, runs: one(33), span: 2},
		{heads: 8, kvHeads: 1, dim: 128, runs: []run{{1, 4000}, {0, 0}, {2, 700}}, span: 30, softcap: 20},
		{heads: 4, kvHeads: 2, dim: 256, runs: []run{{0, 20}, {1, 3500}}, span: 129, window: 1500},
		{heads: 6, kvHeads: 2, dim: 64, runs: one(2900), span: 257, pageRows: 16, sharp: 200},
		{heads: 2, kvHeads: 1, dim: 512, runs: []run{{0, 1900}, {1, 3}}, span: 66},
		{heads: 16, kvHeads: 2, dim: 512, runs: []run{{0, 1200}, {1, 30}}, span: 9, softcap: 20},
		{heads: 12, kvHeads: 2, dim: 128, runs: []run{{0, 1800}, {1, 0}, {2, 90}}, span: 21, window: 64},
		{heads: 10, kvHeads: 1, dim: 80, runs: one(3500), span: 12},
		{heads: 14, kvHeads: 2, dim: 64, runs: []run{{0, 300}, {1, 1700}}, span: 18, window: 500},
	}
	for i, dim := range []int{64, 80, 96, 128, 256, 160, 192, 512, 320} { // behind 256, whose keys that nobody sees may still be in memory of blocks
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
		if c.told = c.span > 1; c.told {
			cases = append(cases, c.testCase())
		}
	}
	return cases
}

// page is the rows of a page.
func (c attendCase) page() int {
	if c.pageRows == 0 {
		return 256
	}
	return c.pageRows
}

func (c attendCase) testCase() testCase {
	if c.sharp == 0 {
		c.sharp = 1
	}
	name := fmt.Sprintf("heads=%d/%d dim=%d runs=%v span=%d window=%d cap=%v sharp=%v page=%d", c.heads, c.kvHeads, c.dim, c.runs, c.span, c.window, c.softcap, c.sharp, c.page())
	if c.room > 0 {
		name += fmt.Sprintf(" room=%d", c.room)
	}
	if c.told {
		name += " told"
	}
	return testCase{name: name, limit: attendLimit, build: c.build}
}

func (c attendCase) layout() layout {
	l := layout{runs: c.runs, span: c.span, pageRows: c.page(), sequences: max(len(c.runs), 1), dim: c.dim, kvHeads: c.kvHeads}
	if c.room > 0 {
		l.reach = device.ReachOf(l.reached() - 1)
	} else if c.told {
		l.reach = l.reached()
	}
	l.seqPages = max(l.reached()/l.pageRows+2, c.room/l.pageRows) // one more than is used
	return l
}

// build fills the positions that the rows see; the others hold NaN, so that a
// weight of zero is not enough to hide them.
func (c attendCase) build(f *fixture) func(device.Device) {
	l := c.layout()
	seen := make([]bool, l.sequences*l.positions())
	for _, r := range c.runs {
		for pos := range r.pos + c.span {
			seen[r.seq*l.positions()+pos] = true
		}
	}
	cols := l.cols()
	visible := func(v values) values {
		return func(i int) float32 {
			if !seen[i/cols] {
				return nan
			}
			return v(i)
		}
	}
	table, cache := l.table(f), f.cache(l.shape())
	l.fill(f, cache, 1, table, visible(noise(1)), visible(noise(2)))
	q := f.inOut("q", activation, l.rows(), c.heads*c.dim, noise(3))
	b := l.batch(f, table)
	a := c.attend(f)
	return func(d device.Device) { d.Attend(q, q, cache, 1, a, b) }
}
