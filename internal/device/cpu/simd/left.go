package simd

// A Left is the left operand of products, packed once for any number of right
// ones. Goroutines may pack different rows of it, and then multiply different
// right operands, with the bits of Gemm.
type Left struct {
	t    tiler[float32]
	m, k int
	a    []float32
}

// Reset makes room for an operand of m x k, not packed yet.
func (l *Left) Reset(m, k int) {
	l.t, l.m, l.k = tilerOf[float32](), m, k
	shelf32.give(l.a)
	l.a = shelf32.take(roundUp(m, l.t.rows) * k)
}

// Release allows the memory to be used again; nothing is packed then.
func (l *Left) Release() {
	shelf32.give(l.a)
	l.a = nil
}

// at is the panels of rows from i on, a multiple of RowUnit, for the elements of
// K from k on.
func (l *Left) at(i, k, depth int) []float32 { return l.a[k*roundUp(l.m, l.t.rows)+i*depth:] }

// Pack packs rows lo to hi of p.A, [m, k]; lo is a multiple of RowUnit.
func (l *Left) Pack(p *Product[float32], lo, hi int) {
	for k := 0; k < l.k; k += kBlock {
		depth := min(kBlock, l.k-k)
		l.t.packA(l.at(lo, k, depth), p.left(lo, hi-lo, k, depth))
	}
}

// Multiply computes p, whose A is what has been packed, from a row on that is a multiple
// of RowUnit, and is not looked at.
func (l *Left) Multiply(p *Product[float32], row int) {
	if p.M == 0 || p.N == 0 || p.K == 0 {
		return
	}
	w := workspaceOf[float32](0, p.N, p.K)
	defer w.release()
	for k := 0; k < p.K; k += kBlock {
		for j := 0; j < p.N; j += nBlock {
			m := panels[float32]{b: w.b, depth: min(kBlock, p.K-k), width: min(nBlock, p.N-j), alpha: p.Alpha, beta: p.carry(k), ldc: p.LDC}
			w.packB(w.b, p.right(j, m.width, k, m.depth))
			for i := 0; i < p.M; i += mBlock {
				m.a, m.height, m.c = l.at(row+i, k, m.depth), min(mBlock, p.M-i), p.C[i*p.LDC+j:]
				l.t.multiply(m)
			}
		}
	}
}
