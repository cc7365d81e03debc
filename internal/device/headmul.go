package device

import "exl2/internal/tensor"

// A HeadMul multiplies heads of rows by a matrix of each head's own: of x, whose heads have In columns and Beside more, the first are
// multiplied, and the others copied in front of what that gives.
type HeadMul struct {
	Heads, In, Beside int
	First, Step       int // the matrix of head h begins with row First + h·Step of w
}

// Out is how many columns the product of a head has, which is in y.
func (h HeadMul) Out(y tensor.Tensor) int { return y.Cols/h.Heads - h.Beside }

// Fits reports whether y, x and w are as large as h says.
func (h HeadMul) Fits(y, x, w tensor.Tensor) bool {
	return h.Heads > 0 && y.Rows == x.Rows && x.Cols == h.Heads*(h.In+h.Beside) && y.Cols%h.Heads == 0 && h.Out(y) > 0 && w.Cols == h.In && h.First+(h.Heads-1)*h.Step+h.Out(y) <= w.Rows
}

// By does it head by head, by the products and copies of d.
func (h HeadMul) By(d Device, y, x, w tensor.Tensor) {
	out := h.Out(y)
	for i := range h.Heads {
		from, to, first := x.Columns(i*(h.In+h.Beside), (i+1)*(h.In+h.Beside)), y.Columns(i*(h.Beside+out), (i+1)*(h.Beside+out)), h.First+i*h.Step
		if h.Beside > 0 {
			d.Copy(to.Columns(0, h.Beside), from.Columns(h.In, h.In+h.Beside))
		}
		d.MatMul(to.Columns(h.Beside, h.Beside+out), from.Columns(0, h.In), w.Slice(first, first+out), tensor.Tensor{})
	}
}
