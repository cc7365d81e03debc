package cuda

import (
	"slices"

	"exl2/internal/tensor"
)

// inherit finds, for every matrix, the first one before it that has the most blocks of its
// own in common: candidates of a matrix that begin with the same widths differ in nothing
// as far as that goes, not even in their errors.
func (w *workshop) inherit() {
	for i := range w.list {
		x := &w.list[i]
		for j := range w.list[:i] {
			if n := alike(x, &w.list[j]); n > x.inherited {
				x.parent, x.inherited = &w.list[j], n
			}
		}
	}
}

// alike returns how many blocks of two matrices are the same.
func alike(a, b *coded) (n int) {
	if a.W != b.W {
		return 0
	}
	for n < len(a.blocks) && n < len(b.blocks) && slices.Equal(a.blocks[n], b.blocks[n]) {
		n++
	}
	return n
}

// bequeath copies what the parents of some matrices have done so far, which is as much as
// they have in common.
func (w *workshop) bequeath(heirs []*coded) {
	d := w.d
	for _, x := range heirs {
		from, groups := x.parent, w.index(x, x.inherited)
		_, rows := rowsOf(x.blocks[x.inherited-1])
		d.Copy(x.Codes.Slice(0, rows), from.Codes.Slice(0, rows))
		d.Copy(x.Scales.Slice(0, groups), from.Scales.Slice(0, groups))
		d.Copy(x.Largest.Reshape(len(x.Groups), 1).Slice(0, groups), from.Largest.Reshape(len(from.Groups), 1).Slice(0, groups))
		d.Copy(x.loss, from.loss)
		for p := range x.errors.count {
			d.Copy(x.errors.rows(p, rows), from.errors.rows(p, rows))
		}
	}
}

// rows returns the first rows of a plane, as many as whole tiles have.
func (p planes) rows(plane, rows int) tensor.Tensor {
	first := plane * p.next
	return p.mem.Columns(first, first+pieces(rows, planes_tile_rows)*p.tiles*planes_tile_halves)
}
