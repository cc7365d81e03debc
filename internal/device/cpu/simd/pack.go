package simd

import (
	"fmt"
	"unsafe"
)

// A run is count rows of A or columns of B, depth elements of each: element k
// of row i is data[i*across + k*along].
type run[T Float] struct {
	data          []T
	across, along int
	count, depth  int
}

func (t *tiler[T]) packA(dst []T, r run[T]) { t.pack(dst, r, t.rows, t.copyA) }
func (t *tiler[T]) packB(dst []T, r run[T]) { t.pack(dst, r, t.cols, t.copyB) }

// pack stores a run in dst as panels of width rows, padded with zeros: the
// elements k of the panel's rows lie together, in order of k. copyRuns copies
// as many bytes as width elements have.
func (t *tiler[T]) pack(dst []T, r run[T], width int, copyRuns func(dst, src *byte, step, n int)) {
	for i := 0; i < r.count; i += width {
		panel, src := dst[i*r.depth:][:width*r.depth], r.data[i*r.across:]
		n := min(width, r.count-i)
		if n < width {
			clear(panel)
		}
		switch {
		case r.across != 1:
			t.turn(panel, width, src, r.across, n, r.depth)
		case n == width && copyRuns != nil:
			src = src[:(r.depth-1)*r.along+width]
			copyRuns(bytesOf(panel), bytesOf(src), r.along*int(unsafe.Sizeof(src[0])), r.depth)
		default:
			copyRows(panel, width, src, r.along, r.depth, n)
		}
	}
}

// bytesOf is the address of s for routines that copy bytes.
func bytesOf[T Float](s []T) *byte { return (*byte)(unsafe.Pointer(&s[0])) }

// copyRows copies rows × cols elements.
func copyRows[T Float](dst []T, dstStep int, src []T, srcStep, rows, cols int) {
	for i := range rows {
		copy(dst[i*dstStep:i*dstStep+cols], src[i*srcStep:i*srcStep+cols])
	}
}

// A transposer is dst[j·to+i] = src[i·from+j] for so many rows i and n columns
// j, a positive multiple of 4.
type transposer[T Float] struct {
	rows int
	turn func(dst *T, to int, src *T, from, n int)
}

// turn is dst[j·to+i] = src[i·from+j] for rows i and columns j.
func (t *tiler[T]) turn(dst []T, to int, src []T, from, rows, cols int) {
	src = src[:(rows-1)*from+cols]
	dst = dst[:(cols-1)*to+rows]
	done, whole := 0, cols&^3
	for _, x := range t.transposers {
		for ; done+x.rows <= rows && whole > 0; done += x.rows {
			x.turn(&dst[done], to, &src[done*from], from, whole)
		}
	}
	for i := range rows {
		first := 0
		if i < done {
			first = whole
		}
		for j, v := range src[i*from+first : i*from+cols] {
			dst[(first+j)*to+i] = v
		}
	}
}

// turnTile is the side of the squares that Transpose cuts: rows a power of two
// apart compete for few lines of the first-level cache.
const turnTile = 16

// Transpose is
//
//	for i := range rows {
//		for j := range cols {
//			dst[j*to+i] = src[i*from+j]
//		}
//	}
//
// dst and src must not overlap. It panics if they are too short.
func Transpose[T Float](dst []T, to int, src []T, from, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	if to < rows || from < cols || len(dst) < (cols-1)*to+rows || len(src) < (rows-1)*from+cols {
		panic(fmt.Sprintf("simd: Transpose: %d elements in rows of %d from %d in rows of %d, want %d x %d", len(dst), to, len(src), from, rows, cols))
	}
	t := tilerOf[T]()
	for i := 0; i < rows; i += turnTile {
		for j := 0; j < cols; j += turnTile {
			t.turn(dst[j*to+i:], to, src[i*from+j:], from, min(turnTile, rows-i), min(turnTile, cols-j))
		}
	}
}
