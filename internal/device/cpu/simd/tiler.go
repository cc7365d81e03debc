package simd

// A tiler computes products of packed panels: C = alpha·A·B + beta·C for a tile
// of C of rows × cols. A panel holds, for each of k, the tile's rows of A or
// columns of B.
type tiler[T Float] struct {
	rows, cols int
	tile       func(k int, a, b, c *T, ldc int, alpha, beta T)

	copyA, copyB func(dst, src *byte, step, n int) // runs of as many bytes as rows or columns have
	transposers  []transposer[T]                   // by falling number of rows
}

// tilerOf returns the tiler for an element type on the level in use.
func tilerOf[T Float]() tiler[T] {
	var kernel any = &asm.gemm32
	if _, ok := kernel.(*tiler[T]); !ok {
		kernel = &asm.gemm64
	}
	t := *kernel.(*tiler[T])
	if t.tile == nil {
		t.rows, t.cols, t.tile = portableRows, portableCols, gemmTile[T]
	}
	return t
}

// Panels are a product of packed operands, with depth elements of K.
type panels[T Float] struct {
	a, b          []T
	depth         int
	alpha, beta   T
	c             []T
	ldc           int
	height, width int // of c
}

// multiply computes c = alpha·a·b + beta·c.
func (t *tiler[T]) multiply(m panels[T]) {
	var edge []T // a tile that sticks out of c
	for j := 0; j < m.width; j += t.cols {
		cols := min(t.cols, m.width-j)
		for i := 0; i < m.height; i += t.rows {
			rows := min(t.rows, m.height-i)
			a, b, c := &m.a[i*m.depth], &m.b[j*m.depth], m.c[i*m.ldc+j:]
			if rows == t.rows && cols == t.cols {
				t.tile(m.depth, a, b, &c[0], m.ldc, m.alpha, m.beta)
				continue
			}
			if edge == nil {
				edge = make([]T, t.rows*t.cols)
			}
			copyRows(edge, t.cols, c, m.ldc, rows, cols)
			t.tile(m.depth, a, b, &edge[0], t.cols, m.alpha, m.beta)
			copyRows(c, m.ldc, edge, t.cols, rows, cols)
		}
	}
}
