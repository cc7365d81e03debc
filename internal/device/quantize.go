package device

import "exl2/internal/tensor"

// Quantize is what making EXL2 matrices needs beyond Forward; a device may
// lack it. Tensors are F32 unless said otherwise. In the methods, a weight has
// its k rows in stored order and n columns.
type Quantize interface {
	Device

	// Gram is h += xᵀ·y for activations x [r, k] and y [r, k'].
	Gram(h, x, y tensor.Tensor)

	// Take is dst[i, j] = src[rows[i], cols[j]]; rows and cols are I32 and may
	// be absent, which stands for all in order.
	Take(dst, src, rows, cols tensor.Tensor)

	// TakeT is dst[i, j] = src[j, cols[i]], zero in columns past src's rows; src
	// is F32, F16 or BF16.
	TakeT(dst, src, cols tensor.Tensor)

	// InverseFactor stores in u, [k, k], the upper triangular U with
	// UᵀU = (h + damp·I)⁻¹, zeros below the diagonal, and reports whether
	// h + damp·I was positive definite to working precision. h is kept.
	InverseFactor(u, h tensor.Tensor, damp float32) bool

	// Solve replaces b, [k, n], by UᵀU·b.
	Solve(b, u tensor.Tensor)

	// SearchScale chooses the scales of one group: w [rows, n] is what is to be
	// stored at the given width, importance [1, rows] weighs the squared error
	// of each row. It stores the codes s-1 in scale, U8 [1, n], and the group's
	// largest scale in largest, F16 [1, 1].
	SearchScale(scale, largest, w, importance tensor.Tensor, bits int)

	// QuantizeRows quantizes the rows of one group in turn, passing each row's
	// error on to the rows after it (GPTQ, Frantar et al. 2022, algorithm 1, one
	// block): for row i, code = round(w/scale) clamped, e = (w - value)/u[i,i],
	// and w[j] -= u[i,j]·e for later rows j of the group. w, [g.Codes.Rows, n],
	// is replaced by the rows of e; u is the whole factor.
	QuantizeRows(g Codes, w, u tensor.Tensor)

	// DescendRows revisits the codes of one group in turn, with all others
	// fixed: r, [rows, n], is the group's part of h·(target - values), and each
	// row's code becomes the best one, round((value + r/h[i,i])/scale) clamped;
	// later rows of r see the change. The changes of values, [rows, n], replace
	// r; h is the whole matrix.
	DescendRows(g Codes, r, h tensor.Tensor)

	// Values stores the weights of a group's codes, rounded as the format
	// rounds, in w [rows, n].
	Values(w tensor.Tensor, g Codes)

	// Feedback is w[j] -= Σᵢ u[first+i, from+j]·e[i].
	Feedback(w, u, e tensor.Tensor, first, from int)

	// Dot waits for earlier operations and returns Σ x·y over all elements.
	Dot(x, y tensor.Tensor) float64
}

// Codes is the quantized form of one group of rows of a matrix.
type Codes struct {
	Bits    int
	First   int           // the group's first row
	Codes   tensor.Tensor // U8 [rows, n]
	Scale   tensor.Tensor // U8 [1, n]: s-1
	Largest tensor.Tensor // F16 [1, 1]
}
