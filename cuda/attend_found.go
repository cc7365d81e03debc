package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// attendFound is what blocks find of parts of rows' keys (Found in kernels/attend_found.cuh), or of one part, and no memory: they store results then.
type attendFound struct {
	sums  tensor.Tensor // F32 [rows·heads·parts, values]
	stats tensor.Tensor // F32 [rows·heads·parts, 2]
	parts int
}

// foundFor returns memory for what is found of rows' heads.
func (d *Device) foundFor(rows, heads, values, parts int) attendFound {
	n := rows * heads * parts
	return attendFound{d.scratch(scratchSums, tensor.F32, n, values), d.scratch(scratchStats, tensor.F32, n, 2), parts}
}

// foundOf returns memory for what is found of runs' parts, where so many blocks run at a time.
func (d *Device) foundOf(of runsShape, blocks int) attendFound {
	if parts := of.parts(blocks); parts > 1 {
		return d.foundFor(of.rows, of.heads, of.columns, parts)
	}
	return attendFound{parts: 1}
}

// join stores the results of y's rows, if they are not there yet.
func (f attendFound) join(d *Device, y tensor.Tensor, a device.Attend) {
	if f.sums.Nil() {
		return
	}
	values := y.Cols / a.Heads
	l := launch{blocks: dim{x: pieces(y.Rows*a.Heads*values/2, attend_join_threads)}, threads: dim{x: attend_join_threads}}
	d.attend_join(l, y, f.sums, f.stats, a.Sinks, int32(y.Rows), int32(a.Heads), int32(values), int32(f.parts), int64(y.Stride))
}

// runsShape is runs as kernels take them: a block has some rows of a head or several, an item, and so many keys at a time, a tile.
type runsShape struct {
	rows, heads, columns int // all rows and their heads, whose values have so many columns
	together             int // heads of an item
	items                int
	longest, middle      int // tiles of the item that has most, and of one that has as many as are usual
}

// shapeOf returns the shape of runs, of heads whose values have so many columns.
func shapeOf(runs, block, keys, columns int, a device.Attend, b device.Batch) runsShape {
	tiles := func(rows, end int) int { // of rows whose last one is before end
		if a.Window > 0 {
			end = min(end, a.Window+rows-1)
		}
		return pieces(end, keys)
	}
	of := runsShape{rows: runs * b.Span, heads: a.Heads, columns: columns, together: stacked(a.Heads/a.KVHeads, block/b.Span), longest: 1, middle: 1}
	of.items = runs * pieces(b.Span, block) * a.Heads / of.together
	if b.Reach > 0 {
		rows := min(b.Span, block)
		of.longest = tiles(rows, b.Reach)
		of.middle = (of.longest + tiles(rows, b.Reach-b.Span+rows)) / 2
	}
	return of
}

// stacked returns how many heads a block has of a group that shares keys: as many as there is room for.
func stacked(group, room int) int {
	for n := min(group, room); n > 1; n-- {
		if group%n == 0 {
			return n
		}
	}
	return 1
}

// parts returns in how many parts the keys are best divided, where so many blocks run at a time. Counted in the time of a tile, an item is two to begin and end, and joining
// is three, and one for so many bytes.
func (s runsShape) parts(blocks int) int {
	const least, most, mostBytes = 2, 32, 64 << 20 // tiles of a part, parts, bytes
	const item, join, tileBytes = 2, 3, 5 << 20
	found := s.rows * s.heads * s.columns * tensor.F32.Size() // bytes of a part
	time := func(parts int) float64 {
		tiles := s.middle
		if s.items*parts <= blocks {
			tiles = s.longest
		}
		t := float64(pieces(s.items*parts, blocks)) * (float64(tiles)/float64(parts) + item)
		if parts > 1 {
			t += join + float64(parts*found)/tileBytes
		}
		return t
	}
	best := 1
	for p := 2; p <= most && s.middle >= least*p && p*found <= mostBytes; p++ {
		if time(p) < time(best) {
			best = p
		}
	}
	return best
}
