package cpu

import (
	"fmt"

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

// Combine is y[r] += scale·Σ weights[r, k]·x[places[r, k]].
func (d *Device) Combine(y, x, places, weights tensor.Tensor, scale float32) {
	const op = "Combine"
	want(y.Cols == x.Cols && places.Rows == y.Rows && (weights.Nil() || weights.Rows == y.Rows && weights.Cols == places.Cols), op, y, x, places, weights)
	out, in := rowsOf(op, y), rowsOf(op, x)
	parallel.Runs(y.Rows, rowTile, func(lo, hi int) {
		sum, release := d.borrowed(y.Cols)
		defer release()
		for r := lo; r < hi; r++ {
			clear(sum)
			list, factors := placesOf(places, weights, r)
			for k, at := range list {
				if at < 0 || int(at) >= x.Rows {
					panic(fmt.Sprintf("cpu: Combine: row %d of %d", at, x.Rows))
				}
				w := float32(1)
				if factors != nil {
					w = factors[k]
				}
				for i, v := range in.row(int(at)) {
					sum[i] += w * v
				}
			}
			for i, v := range sum {
				out.row(r)[i] += scale * v
			}
		}
	})
}

// placesOf returns row r of places and weights, which may be absent.
func placesOf(places, weights tensor.Tensor, r int) (list []int32, factors []float32) {
	list = ints("Combine", places.Slice(r, r+1))
	if !weights.Nil() {
		factors = floats("Combine", weights.Slice(r, r+1))
	}
	return list, factors
}

// CombineBack is dx[places[r, k]] += scale·weights[r, k]·dy[r].
func (d *Device) CombineBack(dx, dy, places, weights tensor.Tensor, scale float32) {
	const op = "CombineBack"
	want(dx.Cols == dy.Cols && places.Rows == dy.Rows && (weights.Nil() || weights.Rows == dy.Rows && weights.Cols == places.Cols), op, dx, dy, places, weights)
	out, in := rowsOf(op, dx), rowsOf(op, dy)
	parallel.Runs(dy.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			list, factors := placesOf(places, weights, r)
			for k, at := range list {
				w := scale
				if factors != nil {
					w *= factors[k]
				}
				to := out.row(int(at))
				for i, v := range in.row(r) {
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
