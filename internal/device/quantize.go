package device

import (
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// Quantize is what making EXL2 matrices needs beyond Forward, and with Train
// what making EXL2 models does; a device may lack it. Tensors are F32 unless said otherwise. A weight has its k rows in
// stored order and n columns, n a multiple of 32. Nothing here waits: what the
// host wants to know is left in device memory, to be downloaded with whatever
// else it wants.
type Quantize interface {
	Train

	// Gram is h += xᵀ·y for activations x [r, k] and y [r, k'].
	Gram(h, x, y tensor.Tensor)

	// Difference is y = a - b, y of the activation type, a and b of that or F32;
	// what fp16 cannot hold becomes its largest.
	Difference(y, a, b tensor.Tensor)

	// Take is dst[i, j] = src[rows[i], cols[j]]; rows and cols are I32 and may
	// be absent, which stands for all in order.
	Take(dst, src, rows, cols tensor.Tensor)

	// TakeColumns fills in the Part of every block of a list: W from Target, codes and
	// scales from Of.
	TakeColumns(list []ColumnBlock)

	// PutColumns puts the codes of every Part back in Of, and has the columns behind the
	// block make up for its errors: Target[:, j] -= (W - V)·Feed[:, j] for j from First+n
	// on, V the weights of the Part's codes.
	PutColumns(list []ColumnBlock)

	// Feeds stores U[C, C]⁻¹·U[C, :] in the rows C of feed, for every n rows C in turn,
	// the last perhaps fewer; of each of a list of upper triangular matrices U. n is up
	// to 64.
	Feeds(list []Feed, n int)

	// TakeT is dst[i, j] = src[j, cols[i]], of the columns that are listed, or of all in
	// order; zero in columns past src's rows; src is F32, F16 or BF16.
	TakeT(dst, src, cols tensor.Tensor)

	// ByNorms is y[r] = ‖x[r]‖·dy[r], norms summed in float64 and rounded to float32; x is
	// of the activation type.
	ByNorms(y, dy, x tensor.Tensor)

	// JoinMoments adds moments of two halves of some tokens, [n, n], as far as two of
	// the n columns are in one span of at most dst.Cols: a and b have the squares on the
	// diagonal, span after span. What two columns have in common in one half and not in
	// the other is chance: off the diagonal the sum is multiplied by the share of its
	// squares that both halves agree on,
	//
	//	Σ a·b / Σ ((a + b)/2)²    over pairs of columns, relative to their own moments
	//
	// but no less than 0 and no more than 1, which is the factor that comes nearest to
	// what more tokens would give. dst, F16 [n, span], has of every column its span's
	// columns, the mean of the diagonal 1, and zeros behind a span that is shorter.
	JoinMoments(dst tensor.Tensor, a, b []tensor.Tensor)

	// Diagonal is dst[0, i] = m[i, i], and AddDiagonal m[i, i] += v.
	Diagonal(dst, m tensor.Tensor)
	AddDiagonal(m tensor.Tensor, v float32)

	// InverseFactor stores in u, [k, k], the upper triangular U with
	// UᵀU = (h + damp·I)⁻¹, zeros below the diagonal, and in ok, I32 [1, 1],
	// whether h + damp·I was positive definite to working precision (1) or not
	// (0; u is then of no use). h is kept.
	InverseFactor(u, h tensor.Tensor, damp float32, ok tensor.Tensor)

	// InverseFactors is InverseFactor of a list, side by side.
	InverseFactors(list []Inverse, damp float32)

	// Solve replaces b, [k, n], by UᵀU·b.
	Solve(b, u tensor.Tensor)

	// SubtractProduct is y -= aᵀ·x for a [r, m], x [r, n] and y [m, n].
	SubtractProduct(y, a, x tensor.Tensor)

	// Dot stores Σ x·y over all elements in sum, F64 [1, 1]. Of a sum F64 [1, n]
	// the columns are for runs of ⌈rows/n⌉ rows, the last shorter or empty.
	Dot(sum, x, y tensor.Tensor)

	// Distances stores ‖x - y‖², of differences in float32, in diffs and ‖y‖² in squares, of
	// runs of rows as Dot has them.
	Distances(diffs, squares, x, y tensor.Tensor)

	// LogLikelihood stores log softmax(logits[r])[ids[r]] in logs, F64 [1, rows], and 0
	// where an id, I32 [1, rows], is negative; NaN where a row has NaN or +infinity.
	LogLikelihood(logs, logits, ids tensor.Tensor)

	// GPTQ quantizes matrices that share a factor, each of the list by itself
	// (Frantar et al. 2022, algorithm 1, with lazy updates). For one matrix:
	// begin with a copy of W; group after group, in order, choose the group's
	// scales as SearchScale does, and quantize its rows in turn: with scale s,
	// code = round(w·(1/s)) clamped, value = the code's weight, e = (w -
	// value)·(1/u[i,i]), and w[j] -= u[i,j]·e for all later rows j. Within a group
	// that is done row by row, every operation rounded to float32, without fused
	// multiply-adds, so that devices agree bit for bit on the first group; how
	// sums over a group's rows reach later groups is the device's own. loss, F64
	// [1, len(list)], is Σ e² of each matrix: the squared error of its outputs.
	GPTQ(list []Coding, f Factor, loss tensor.Tensor)

	// Descend improves codes by passes of coordinate descent on
	// tr((W-V)ᵀH(W-V)), V the codes' weights: in every pass each row's codes, in
	// order, become the best ones with all other rows fixed, round((value +
	// r·(1/h[i,i]))·(1/scale)) clamped with r = row i of H·(W-V). Within a group
	// operations are rounded as in GPTQ. Scales stay.
	Descend(list []Coding, f Factor, passes int)

	// Pairs improves codes on the same by changing those of two rows at a time, in
	// windows of PairRows rows, one after another. In a window, with r its rows of
	// H·(W-V), row i after row i is changed to the better of the two codes beside its
	// own, by a value d, and the row j of the window whose better neighbour then brings
	// most; if that lowers the loss by more than d²·h[i,i]/1024, both stay so, or i alone
	// if no j does it any good. Not tried is what could only be made up for by more than
	// 2·|d|·m·v, m the largest |h[i,j]| of the window and v the largest change of a code
	// of the column, as much as a j can bring that is best as it is. Within a window
	// operations are rounded as in GPTQ; the first among equals is chosen, and the higher
	// code of two. A code that would be beyond the last one changes nothing, and a row
	// whose better neighbour it is does not begin a change.
	Pairs(list []Coding, f Factor)

	// ReadyToDescend returns what Descend and Pairs would make of f.H each time, to be set as
	// f.Ready by whoever descends often, and freed; absent if there is nothing.
	ReadyToDescend(f Factor) tensor.Tensor

	// SearchScale chooses the scales of group g of every matrix of the list:
	// for each of some largest scales every column takes the code with the
	// smallest squared error of its rows, weighed by importance, [1, k], after
	// rounding; the largest scale with the smallest sum over columns wins, the
	// first among equals. A column's sum goes row by row, each operation rounded
	// to float32; the sum over columns is in float64. GPTQ does this by itself.
	SearchScale(list []Coding, g int, importance tensor.Tensor)

	// Values stores the weights of the codes, rounded as the format rounds, in
	// w [k, n].
	Values(w tensor.Tensor, c Coding)

	// Pack stores codes as files have them: words I32 [Q, n] and scales I32
	// [groups, n/8] (docs/format.md). Of a part of a matrix (Coding.Group), words
	// and scales are that part's.
	Pack(words, scales tensor.Tensor, c Coding)

	// Assemble makes a matrix for products of packed codes: words and scales as
	// Pack stores them, perm, I32 [1, k], the original row of every stored row,
	// and the number of columns without padding. All are copied.
	Assemble(c Coding, words, scales, perm tensor.Tensor, out int) Matrix

	// DecodeStored is Decode of what Assemble has made, with rows in stored order.
	DecodeStored(dst tensor.Tensor, w Matrix)

	// QuantizeWorkspace returns the bytes of workspace that GPTQ and Descend
	// take for count matrices of k x n.
	QuantizeWorkspace(k, n, count int) int
}

// A Moment is a product that Gram adds: h += xᵀ·y.
type Moment struct{ H, X, Y tensor.Tensor }

// A Summer adds many moments at once, those of one H in the order of the list, to the
// same bits as Gram. Of an X with itself only what is on and above the diagonal of H is
// there until Mirror, which copies it below.
type Summer interface {
	Grams(list []Moment)
	Mirror(hs []tensor.Tensor)
}

// A Repeater can issue operations again without what the host does between them.
type Repeater interface {
	// Repeat calls fn, and returns what issues its operations again, on the same tensors.
	// fn must not wait or download. What it frees is freed by free.
	Repeat(fn func()) (again, free func())
}

// Repeat calls fn, and returns what does the same again.
func Repeat(d Device, fn func()) (again, free func()) {
	if r, ok := d.(Repeater); ok {
		return r.Repeat(fn)
	}
	fn()
	return fn, func() {}
}

// PairRows is the rows of a window of Pairs.
const PairRows = 256

// A Factor is what quantizing needs to know of inputs x with H = Σ xᵀx, damped.
type Factor struct {
	U          tensor.Tensor // [k, k], upper triangular: UᵀU = H⁻¹
	H          tensor.Tensor // [k, k]
	Importance tensor.Tensor // [1, k]: 1/u[i,i]²: what a squared error of row i costs
	Ready      tensor.Tensor // see ReadyToDescend, or absent
}

// An Inverse is a matrix H to be factored, and where U and whether there is one go.
type Inverse struct{ U, H, OK tensor.Tensor }

// A Feed is an upper triangular matrix, [n, n], and what Feeds makes of it, of that size.
type Feed struct{ Feed, U tensor.Tensor }

// A ColumnBlock is columns of a matrix that are improved together, by themselves, while
// columns behind them, in an order of their own, make up for their errors.
type ColumnBlock struct {
	Of     Coding        // the matrix, whose W is not used
	Cols   tensor.Tensor // I32 [1, n]: its columns
	Part   Coding        // these columns, of the same groups; Largest is Of's
	Target tensor.Tensor // [k, m]: what columns are to become; the block's begin at First
	First  int
	Feed   tensor.Tensor // [n, m]: what the error of a column of the block takes off those behind it
}

// A Coding is a matrix and its quantized form.
type Coding struct {
	W       tensor.Tensor // [k, n]: what is to be stored; it is only read
	Groups  []exl2.Group
	Codes   tensor.Tensor // U8 [k, n]
	Scales  tensor.Tensor // U8 [groups, n]: s-1
	Largest tensor.Tensor // F16 [groups, 1]: the largest scale of each group
}

// Group returns the coding of group i alone: its rows of W and of the codes.
func (c Coding) Group(i int) Coding {
	g := c.Groups[i]
	part := Coding{Groups: c.Groups[i : i+1], Codes: c.Codes.Slice(g.Row, g.Row+g.Rows), Scales: c.Scales.Slice(i, i+1), Largest: c.Largest.Slice(i, i+1)}
	if !c.W.Nil() {
		part.W = c.W.Slice(g.Row, g.Row+g.Rows)
	}
	return part
}
