package cpu

import (
	"sync/atomic"

	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/parallel"
	"exl2/internal/score"
	"exl2/internal/tensor"
)

// Gram is h += xᵀ·y. With y the same tensor as x only one triangle is
// computed, and mirrored.
func (d *Device) Gram(h, x, y tensor.Tensor) {
	m := device.Moment{H: h, X: x, Y: y}
	d.Grams([]device.Moment{m})
	if _, same := moment(m); same {
		d.Mirror([]tensor.Tensor{h})
	}
}

// Grams is Gram for a list, without what is below the diagonal of moments of an x with
// itself.
func (d *Device) Grams(list []device.Moment) {
	var sums []blas.Sum
	at := map[*float32]int{} // which sum is of an h
	for _, m := range list {
		p, same := moment(m)
		if len(p.C) == 0 {
			continue
		}
		key := &p.C[0]
		i, ok := at[key]
		if !ok {
			i = len(sums)
			at[key] = i
			sums = append(sums, blas.Sum{Upper: same})
		}
		want(sums[i].Upper == same, "Gram", m.H, m.X, m.Y)
		sums[i].Products = append(sums[i].Products, p)
	}
	blas.AddAll(sums)
}

// Mirror copies what is above the diagonals to below them.
func (d *Device) Mirror(hs []tensor.Tensor) {
	for _, h := range hs {
		want(h.Rows == h.Cols, "Mirror", h)
		mirror(floats("Mirror", h), h.Rows)
	}
}

// moment returns a product, and whether it is of a tensor with itself.
func moment(m device.Moment) (p simd.Product[float32], same bool) {
	h, x, y := m.H, m.X, m.Y
	want(x.Rows == y.Rows && h.Rows == x.Cols && h.Cols == y.Cols, "Gram", h, x, y)
	out, a, b := floats("Gram", h), rowsOf("Gram", x), rowsOf("Gram", y)
	same = len(a.data) > 0 && &a.data[0] == &b.data[0] && a.stride == b.stride && x.Cols == y.Cols
	return simd.Product[float32]{
		M: h.Rows, N: h.Cols, K: x.Rows, Alpha: 1, Beta: 1, C: out, LDC: h.Cols,
		A: simd.Operand[float32]{Data: a.data, Row: 1, Col: a.stride},
		B: simd.Operand[float32]{Data: b.data, Row: b.stride, Col: 1},
	}, same
}

// Difference is y = a - b.
func (d *Device) Difference(y, a, b tensor.Tensor) {
	want(y.Rows == a.Rows && y.Cols == a.Cols && b.Rows == a.Rows && b.Cols == a.Cols, "Difference", y, a, b)
	flatten(&y, &a, &b)
	out, from, less := rowsOf("Difference", y), rowsOf("Difference", a), rowsOf("Difference", b)
	pieces(y.Rows, y.Cols, func(r, lo, hi int) {
		to, subtract := out.row(r)[lo:hi], less.row(r)[lo:hi]
		for i, v := range from.row(r)[lo:hi] {
			to[i] = v - subtract[i]
		}
	})
}

// LogLikelihood stores log softmax(logits[r])[ids[r]], or 0, in float64.
func (d *Device) LogLikelihood(logs, logits, ids tensor.Tensor) {
	want(logs.Cols == logits.Rows && ids.Cols == logits.Rows, "LogLikelihood", logs, logits, ids)
	out, rows, list := elements[float64](logs), rowsOf("LogLikelihood", logits), ints("LogLikelihood", ids)
	parallel.For(logits.Rows, func(r int) {
		if out[r] = 0; list[r] >= 0 {
			out[r] = score.NewRow(rows.row(r)).LogLikelihood(list[r])
		}
	})
}

// mirrorTile is the side of the squares that are mirrored at a time.
const mirrorTile = 64

// mirror copies what is above the diagonal of h, [n, n], to below it.
func mirror(h []float32, n int) {
	across := (n + mirrorTile - 1) / mirrorTile
	parallel.For(across*across, func(t int) {
		i, j := t/across*mirrorTile, t%across*mirrorTile
		switch {
		case i < j:
			simd.Transpose(h[j*n+i:], n, h[i*n+j:], n, mirrorTile, min(mirrorTile, n-j))
		case i == j:
			for r := i; r < min(n, i+mirrorTile); r++ {
				for c := i; c < r; c++ {
					h[r*n+c] = h[c*n+r]
				}
			}
		}
	})
}

// Diagonal is dst[0, i] = m[i, i].
func (d *Device) Diagonal(dst, m tensor.Tensor) {
	want(m.Rows == m.Cols && dst.Rows == 1 && dst.Cols == m.Cols, "Diagonal", dst, m)
	out, in := floats("Diagonal", dst), floats("Diagonal", m)
	for i := range out {
		out[i] = in[i*m.Cols+i]
	}
}

// AddDiagonal is m[i, i] += v.
func (d *Device) AddDiagonal(m tensor.Tensor, v float32) {
	want(m.Rows == m.Cols, "AddDiagonal", m)
	for i, x := 0, floats("AddDiagonal", m); i < m.Rows; i++ {
		x[i*m.Cols+i] += v
	}
}

// Take is dst[i, j] = src[rows[i], cols[j]].
func (d *Device) Take(dst, src, rows, cols tensor.Tensor) {
	out, in := floats("Take", dst), floats("Take", src)
	r, c := indices(rows, dst.Rows), indices(cols, dst.Cols)
	parallel.Runs(dst.Rows, rowsAtOnce(dst.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from := in[int(r[i])*src.Cols : (int(r[i])+1)*src.Cols]
			to := out[i*dst.Cols : (i+1)*dst.Cols]
			for j := range to {
				to[j] = from[c[j]]
			}
		}
	})
}

// indices returns a list of n indices, all n in order if it is absent.
func indices(t tensor.Tensor, n int) []int32 {
	if !t.Nil() {
		want(t.Cols == n, "Take", t)
		return ints("Take", t)
	}
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// turnRows is how many rows of a weight are transposed at a time: as many
// floats as a line of the cache has.
const turnRows = 16

// TakeT is dst[i, j] = src[j, cols[i]], of as many columns as are listed.
func (d *Device) TakeT(dst, src, cols tensor.Tensor) {
	want(dst.Cols >= src.Rows && (dst.Rows == src.Cols || !cols.Nil()), "TakeT", dst, src)
	out, c := floats("TakeT", dst), indices(cols, dst.Rows)
	parallel.Runs(dst.Cols, turnRows*max(1, pieceSize/(turnRows*max(1, dst.Rows))), func(first, end int) {
		wide, release := d.borrowed(turnRows * src.Cols)
		defer release()
		for lo := first; lo < end; lo += turnRows {
			hi := min(lo+turnRows, end)
			clear(wide)
			for j := lo; j < min(hi, src.Rows); j++ {
				widenRow(wide[(j-lo)*src.Cols:(j-lo+1)*src.Cols], src, j)
			}
			for i, from := range c {
				row := out[i*dst.Cols+lo : i*dst.Cols+hi]
				for j := range row {
					row[j] = wide[j*src.Cols+int(from)]
				}
			}
		}
	})
}

// InverseFactor reverses the order of rows and columns, which turns a lower
// Cholesky factor into an upper one: if the reversed h + damp·I is L·Lᵀ, then
// U is L⁻¹ reversed back.
func (d *Device) InverseFactor(u, h tensor.Tensor, damp float32, ok tensor.Tensor) {
	k := h.Rows
	want(h.Cols == k && u.Rows == k && u.Cols == k && ok.Rows*ok.Cols == 1, "InverseFactor", u, h, ok)
	answer := ints("InverseFactor", ok)
	answer[0] = 0
	in, out := floats("InverseFactor", h), floats("InverseFactor", u)
	a := simd.Scratch64(k * k)
	defer simd.Keep64(a)
	parallel.Runs(k, rowsAtOnce(k), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for j := 0; j <= i; j++ {
				a[i*k+j] = float64(in[(k-1-i)*k+k-1-j])
			}
			a[i*k+i] += float64(damp)
		}
	})
	if !blas.InvertCholesky(a, k) {
		return
	}
	var infinite atomic.Bool
	parallel.Runs(k, rowsAtOnce(k), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := out[i*k : (i+1)*k]
			clear(row[:i])
			for j := i; j < k; j++ {
				row[j] = float32(a[(k-1-i)*k+k-1-j])
			}
			if !finite(row[i:]) {
				infinite.Store(true)
			}
		}
	})
	if !infinite.Load() {
		answer[0] = 1
	}
}

// InverseFactors is InverseFactor of a list.
func (d *Device) InverseFactors(list []device.Inverse, damp float32) {
	parallel.For(len(list), func(i int) { d.InverseFactor(list[i].U, list[i].H, damp, list[i].OK) })
}

func finite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// solveRows is how many rows of a triangle are multiplied at a time: enough to
// be fast, few enough to leave out most of the zeros.
const solveRows = 512

// Solve replaces b by UᵀU·b, some columns at a time.
func (d *Device) Solve(b, u tensor.Tensor) {
	k, n := b.Rows, b.Cols
	want(u.Rows == k && u.Cols == k, "Solve", b, u)
	x, f := floats("Solve", b), floats("Solve", u)
	for size, lo := stripe(k), 0; lo < n; lo += size {
		m := min(size, n-lo)
		product, release := d.borrowed(k * m)
		for i := 0; i < k; i += solveRows { // U·b: row i begins with i zeros
			blas.Multiply(&simd.Product[float32]{
				M: min(solveRows, k-i), N: m, K: k - i, Alpha: 1, C: product[i*m:], LDC: m,
				A: simd.Operand[float32]{Data: f[i*k+i:], Row: k, Col: 1}, B: simd.Operand[float32]{Data: x[i*n+lo:], Row: n, Col: 1},
			})
		}
		for i := 0; i < k; i += solveRows { // Uᵀ times that: row i ends after i+1
			rows := min(solveRows, k-i)
			blas.Multiply(&simd.Product[float32]{
				M: rows, N: m, K: i + rows, Alpha: 1, C: x[i*n+lo:], LDC: n,
				A: simd.Operand[float32]{Data: f[i:], Row: 1, Col: k}, B: simd.Operand[float32]{Data: product, Row: m, Col: 1},
			})
		}
		release()
	}
}

// SubtractProduct is y -= aᵀ·x.
func (d *Device) SubtractProduct(y, a, x tensor.Tensor) {
	want(a.Rows == x.Rows && y.Rows == a.Cols && y.Cols == x.Cols, "SubtractProduct", y, a, x)
	blas.Multiply(&simd.Product[float32]{
		M: y.Rows, N: y.Cols, K: a.Rows, Alpha: -1, Beta: 1, C: floats("SubtractProduct", y), LDC: y.Cols,
		A: simd.Operand[float32]{Data: floats("SubtractProduct", a), Row: 1, Col: a.Cols},
		B: simd.Operand[float32]{Data: floats("SubtractProduct", x), Row: x.Cols, Col: 1},
	})
}

// Dot stores Σ x·y, summed row by row so that the order is fixed.
func (d *Device) Dot(sum, x, y tensor.Tensor) {
	checkDot("Dot", sum, x, y)
	v, w := rowsOf("Dot", x), rowsOf("Dot", y)
	addRows(sum, x, func(r int) float64 { return dotRow(v.row(r), w.row(r)) })
}

// Distances stores ‖x - y‖² and ‖y‖², in the order of Dot.
func (d *Device) Distances(diffs, squares, x, y tensor.Tensor) {
	checkDot("Distances", diffs, x, y)
	checkDot("Distances", squares, x, y)
	v, w := rowsOf("Distances", x), rowsOf("Distances", y)
	addRows(diffs, x, func(r int) float64 { return apart(v.row(r), w.row(r)) })
	addRows(squares, x, func(r int) float64 { return dotRow(w.row(r), w.row(r)) })
}

func checkDot(op string, sum, x, y tensor.Tensor) {
	want(x.Rows == y.Rows && x.Cols == y.Cols && sum.Rows == 1 && sum.Cols > 0, op, sum, x, y)
	wantType(op, sum, tensor.F64)
}

// addRows stores sums of runs of the rows of x, each of which is some number.
func addRows(sum, x tensor.Tensor, of func(r int) float64) {
	rows, out := make([]float64, x.Rows), elements[float64](sum)
	parallel.Runs(x.Rows, rowsAtOnce(x.Cols), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			rows[r] = of(r)
		}
	})
	clear(out)
	run := (x.Rows + sum.Cols - 1) / sum.Cols
	for r, v := range rows {
		out[r/run] += v
	}
}

func dotRow(x, y []float32) (sum float64) {
	for i, v := range x {
		sum += float64(v) * float64(y[i])
	}
	return sum
}

// apart is the squared distance of two rows.
func apart(x, y []float32) (sum float64) {
	for i, v := range x {
		d := v - y[i]
		sum += float64(d) * float64(d)
	}
	return sum
}
