package cpu

import (
	"math"

	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// ByNorms is y[r] = ‖x[r]‖·dy[r].
func (d *Device) ByNorms(y, dy, x tensor.Tensor) {
	want(y.Rows == dy.Rows && y.Cols == dy.Cols && x.Rows == y.Rows, "ByNorms", y, dy, x)
	out, from, of := rowsOf("ByNorms", y), rowsOf("ByNorms", dy), rowsOf("ByNorms", x)
	parallel.Runs(y.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			norm := float32(math.Sqrt(dotRow(of.row(r), of.row(r))))
			to := out.row(r)
			for i, v := range from.row(r) {
				to[i] = norm * v
			}
		}
	})
}

// momentHalves are moments of two halves of some tokens on the way to their sum.
type momentHalves struct {
	a, b [][]float32 // by span, square
	span int
	own  []float64 // of each column, both halves
}

// JoinMoments adds moments of two halves.
func (d *Device) JoinMoments(dst tensor.Tensor, a, b []tensor.Tensor) {
	h := &momentHalves{span: dst.Cols}
	for i := range a {
		want(a[i].Rows == a[i].Cols && a[i].Rows <= dst.Cols && b[i].Rows == a[i].Rows && b[i].Cols == a[i].Cols, "JoinMoments", dst, a[i], b[i])
		h.a, h.b = append(h.a, floats("JoinMoments", a[i])), append(h.b, floats("JoinMoments", b[i]))
		side := a[i].Rows
		for c := range side {
			h.own = append(h.own, float64(h.a[i][c*(side+1)])+float64(h.b[i][c*(side+1)]))
		}
	}
	n := len(h.own)
	want(dst.Rows == n, "JoinMoments", dst)
	wantType("JoinMoments", dst, tensor.F16)
	share, sum := h.share()
	out := elements[half.F16](dst)
	parallel.Runs(n, rowTile, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			x, y, _ := h.row(i)
			row := out[i*h.span : (i+1)*h.span]
			clear(row[len(x):])
			for at := range x {
				v := x[at] + y[at]
				if at != i%h.span {
					v *= share
				}
				row[at] = half.ToF16(float32(min(float64(v)/sum*float64(n), half.MaxF16)))
			}
		}
	})
}

// row returns the moments of column i with those of its span, in both halves, and
// where the span begins.
func (h *momentHalves) row(i int) (x, y []float32, first int) {
	first = i / h.span * h.span
	side := min(h.span, len(h.own)-first)
	at := (i - first) * side
	return h.a[i/h.span][at : at+side], h.b[i/h.span][at : at+side], first
}

// share returns what both halves agree on off the diagonal, and the sum of the diagonal.
func (h *momentHalves) share() (share float32, sum float64) {
	n := len(h.own)
	both, all := make([]float64, n), make([]float64, n)
	parallel.Runs(n, rowTile, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			x, y, first := h.row(i)
			for at := range x {
				if size := h.own[i] * h.own[first+at]; first+at != i && size > 0 {
					a, b := float64(x[at]), float64(y[at])
					both[i], all[i] = both[i]+a*b/size, all[i]+(a+b)*(a+b)/4/size
				}
			}
		}
	})
	agreed, squares := 0.0, 0.0
	for i := range n {
		x, y, first := h.row(i)
		agreed, squares, sum = agreed+both[i], squares+all[i], sum+float64(x[i-first]+y[i-first])
	}
	if agreed > 0 {
		share = float32(min(agreed/squares, 1))
	}
	if !(sum > 0) {
		sum = float64(n)
	}
	return share, sum
}
