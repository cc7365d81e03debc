package cuda

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// Values stores the weights of codes in w.
func (d *Device) Values(w tensor.Tensor, c device.Coding) {
	want(w.Rows == c.Codes.Rows && w.Cols == c.Codes.Cols && w.Type == tensor.F32, "Values", w, c.Codes)
	largest := c.Largest.Reshape(len(c.Groups), 1)
	alike := func(a, b exl2.Group) bool { return a.Bits == b.Bits && a.Rows == b.Rows }
	for _, r := range runsOf(c.Groups, alike) {
		g := c.Groups[r.first]
		row := g.Row - c.Groups[0].Row
		end, last := row+r.count*g.Rows, r.first+r.count
		d.coding_values(grid2(w.Cols, r.count), w.Slice(row, end), c.Codes.Slice(row, end), c.Scales.Slice(r.first, last), largest.Slice(r.first, last),
			int32(g.Bits), int32(g.Rows), int32(w.Cols))
	}
}

// A span is groups that are alike: count of them from first on.
type span struct{ first, count int }

// runsOf cuts groups into runs of which neighbours are alike.
func runsOf(groups []exl2.Group, alike func(a, b exl2.Group) bool) (runs []span) {
	for i, g := range groups {
		if i > 0 && alike(groups[i-1], g) {
			runs[len(runs)-1].count++
		} else {
			runs = append(runs, span{i, 1})
		}
	}
	return runs
}

// Pack stores codes as files have them.
func (d *Device) Pack(words, scales tensor.Tensor, c device.Coding) {
	n, first := c.Codes.Cols, c.Groups[0]
	want(words.Cols == n && scales.Rows == len(c.Groups) && scales.Cols == n/8, "Pack", words, scales, c.Codes)
	for _, r := range runsOf(c.Groups, func(a, b exl2.Group) bool { return a.Bits == b.Bits }) {
		from, last := c.Groups[r.first], c.Groups[r.first+r.count-1]
		row, blocks := from.Row-first.Row, (last.Row+last.Rows-from.Row)/planes_tile_rows
		word := from.Word - first.Word
		d.coding_words(grid2(n, blocks), words.Slice(word, word+blocks*from.Bits), c.Codes.Slice(row, row+planes_tile_rows*blocks), int32(from.Bits), int32(n))
	}
	count := scales.Rows * scales.Cols
	d.coding_scales(perThread(count), scales, c.Scales, int32(count))
}

// Assemble makes a matrix for products of packed codes, as LoadEXL2 makes one of a
// file's.
func (d *Device) Assemble(c device.Coding, words, scales, perm tensor.Tensor, out int) device.Matrix {
	k, n, groups := c.Codes.Rows, c.Codes.Cols, len(c.Groups)
	want(words.Cols == n && scales.Rows == groups && scales.Cols == n/8 && perm.Rows*perm.Cols == k && out <= n, "Assemble", words, scales, perm)
	q := &matrix{in: k, out: out, padded: n, groups: groups, digitless: true}
	for i, g := range c.Groups {
		q.addGroup(i, g)
	}
	q.units = d.Alloc(tensor.I32, 1, groups)
	d.coding_units(perThread(groups), q.units, c.Largest, int32(groups))
	q.scales = d.Alloc(tensor.I32, n/exl2_tile_columns, 4*groups)
	d.coding_tiles(perThread(groups*n/8), q.scales, scales, int32(groups), int32(n/8))
	q.perm = d.Alloc(tensor.I32, 1, k)
	d.Copy(q.perm, perm)
	if k <= 1<<16 {
		q.order, q.places = d.Alloc(tensor.F16, 1, k), d.Alloc(tensor.F16, 1, k)
		d.coding_order(perThread(k), q.order, q.places, perm, int32(k))
	}
	q.loadTable(d)
	q.arrange(d, words)
	return q
}
