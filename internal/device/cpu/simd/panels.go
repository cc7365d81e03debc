package simd

// Panels are the operands of a product, or of a run of its K, packed for the
// tile kernels. Any number of goroutines may pack different rows and columns of
// them, and then compute different tiles of C, with the bits of Gemm.
type Panels struct {
	t        tiler[float32]
	p        Product[float32]
	from, to int // of K
	a, b     []float32
}

// Units of rows, columns and K: ranges of Panels begin at multiples of them.
const (
	RowUnit = 12
	ColUnit = 32
	KUnit   = kBlock
)

// panelFloats is how many elements are packed at a time, kBlock of K at least.
const panelFloats = 8 << 20

// NewPanels returns panels, not packed yet, for the elements of K from k on: a
// multiple of what Next returned for the run before, or 0. Runs are computed in
// turn; each adds to what those before it left in C. p passes Check, and M, N, K
// and Alpha are not zero.
func NewPanels(p *Product[float32], k int) *Panels {
	q := &Panels{t: tilerOf[float32](), p: *p, from: k}
	rows, cols := roundUp(p.M, q.t.rows), roundUp(p.N, q.t.cols)
	blocks := max(1, panelFloats/((rows+cols)*kBlock))
	q.to = min(p.K, k+blocks*kBlock)
	q.a, q.b = shelf32.take(rows*(q.to-k)), shelf32.take(cols*(q.to-k))
	return q
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// Release allows the memory to be used again; the panels must not be.
func (q *Panels) Release() {
	shelf32.give(q.a)
	shelf32.give(q.b)
	q.a, q.b = nil, nil
}

// Next returns where the next run of K begins, K after the last.
func (q *Panels) Next() int { return q.to }

// each calls f for the blocks of K: depth elements from k on, before which are
// skip elements of every row and column.
func (q *Panels) each(f func(k, depth, skip int)) {
	for k := q.from; k < q.to; k += kBlock {
		f(k, min(kBlock, q.to-k), k-q.from)
	}
}

// leftAt is the panels of A from row i on, rightAt those of B from column j on.
func (q *Panels) leftAt(i, depth, skip int) []float32 {
	return q.a[skip*roundUp(q.p.M, q.t.rows)+i*depth:]
}

func (q *Panels) rightAt(j, depth, skip int) []float32 {
	return q.b[skip*roundUp(q.p.N, q.t.cols)+j*depth:]
}

// PackA packs rows lo to hi of A.
func (q *Panels) PackA(lo, hi int) {
	q.each(func(k, depth, skip int) { q.t.packA(q.leftAt(lo, depth, skip), q.p.left(lo, hi-lo, k, depth)) })
}

// PackB packs columns lo to hi of B.
func (q *Panels) PackB(lo, hi int) {
	q.each(func(k, depth, skip int) { q.t.packB(q.rightAt(lo, depth, skip), q.p.right(lo, hi-lo, k, depth)) })
}

// Multiply computes rows × cols elements of C from (i, j) on.
func (q *Panels) Multiply(i, j, rows, cols int) {
	m := panels[float32]{alpha: q.p.Alpha, c: q.p.C[i*q.p.LDC+j:], ldc: q.p.LDC, height: rows, width: cols}
	q.each(func(k, depth, skip int) {
		m.a, m.b, m.depth, m.beta = q.leftAt(i, depth, skip), q.rightAt(j, depth, skip), depth, q.p.carry(k)
		q.t.multiply(m)
	})
}
