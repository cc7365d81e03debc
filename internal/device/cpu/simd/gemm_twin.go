package simd

import "unsafe"

// The twin's tile.
const twinRows, twinCols = 4, 8

// gemmTile is
//
//	for i := range rows {
//		for j := range cols {
//			sum := 0.0
//			for l := range k {
//				sum += a[l*rows+i] * b[l*cols+j]
//			}
//			if beta == 0 {
//				c[i*ldc+j] = alpha * sum
//			} else {
//				c[i*ldc+j] = beta*c[i*ldc+j] + alpha*sum
//			}
//		}
//	}
//
// for a tile of twinRows × twinCols; the assembly has larger ones and uses fused
// multiply-adds.
func gemmTile[T Float](k int, a, b, c *T, ldc int, alpha, beta T) {
	var acc [twinRows][twinCols]T
	as, bs := unsafe.Slice(a, k*twinRows), unsafe.Slice(b, k*twinCols)
	for ; len(as) >= twinRows && len(bs) >= twinCols; as, bs = as[twinRows:], bs[twinCols:] {
		x := (*[twinCols]T)(bs)
		for i, v := range as[:twinRows] {
			row := &acc[i]
			for j := range row {
				row[j] += v * x[j]
			}
		}
	}
	cs := unsafe.Slice(c, (twinRows-1)*ldc+twinCols)
	for i := range acc {
		row := cs[i*ldc:][:twinCols]
		for j, sum := range acc[i] {
			if beta == 0 {
				row[j] = alpha * sum
			} else {
				row[j] = beta*row[j] + alpha*sum
			}
		}
	}
}
