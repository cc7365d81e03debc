package simd

import "unsafe"

// The portable fallback's tile.
const portableRows, portableCols = 4, 8

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
// for a tile of portableRows × portableCols; the assembly has larger ones and uses fused
// multiply-adds.
func gemmTile[T Float](k int, a, b, c *T, ldc int, alpha, beta T) {
	var acc [portableRows][portableCols]T
	as, bs := unsafe.Slice(a, k*portableRows), unsafe.Slice(b, k*portableCols)
	for ; len(as) >= portableRows && len(bs) >= portableCols; as, bs = as[portableRows:], bs[portableCols:] {
		x := (*[portableCols]T)(bs)
		for i, v := range as[:portableRows] {
			row := &acc[i]
			for j := range row {
				row[j] += v * x[j]
			}
		}
	}
	cs := unsafe.Slice(c, (portableRows-1)*ldc+portableCols)
	for i := range acc {
		row := cs[i*ldc:][:portableCols]
		for j, sum := range acc[i] {
			if beta == 0 {
				row[j] = alpha * sum
			} else {
				row[j] = beta*row[j] + alpha*sum
			}
		}
	}
}
