package cpu

import (
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// Gather is y[i] = x[rows[i]].
func (d *Device) Gather(y, x, rows tensor.Tensor) {
	want(y.Cols == x.Cols && rows.Cols == y.Rows, "Gather", y, x, rows)
	out, in, list := rowsOf("Gather", y), rowsOf("Gather", x), ints("Gather", rows)
	if !d.within("Gather", list, x.Rows) {
		return
	}
	parallel.Runs(y.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			copy(out.row(r), in.row(int(list[r])))
		}
	})
}

// Combine is y[r] += Σ weights[r, k]·x[places[r, k]].
func (d *Device) Combine(y, x, places, weights tensor.Tensor) {
	want(y.Cols == x.Cols && places.Rows == y.Rows && weights.Rows == y.Rows && weights.Cols == places.Cols, "Combine", y, x, places, weights)
	out, in, list, factors := rowsOf("Combine", y), rowsOf("Combine", x), ints("Combine", places), floats("Combine", weights)
	if !d.within("Combine", list, x.Rows) {
		return
	}
	n := places.Cols
	parallel.Runs(y.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			to := out.row(r)
			for k := r * n; k < (r+1)*n; k++ {
				w := factors[k]
				for i, v := range in.row(int(list[k])) {
					to[i] += w * v
				}
			}
		}
	})
}

// within keeps a failure if a number is none of a row.
func (d *Device) within(op string, list []int32, rows int) bool {
	for _, r := range list {
		if r < 0 || int(r) >= rows {
			d.fail("%s: row %d of %d", op, r, rows)
			return false
		}
	}
	return true
}
