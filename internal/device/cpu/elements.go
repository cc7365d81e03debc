package cpu

import (
	"fmt"
	"unsafe"

	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// elements returns the elements of t, which has no gaps, as type E, which the
// caller has matched with t.Type.
func elements[E any](t tensor.Tensor) []E {
	if !t.Dense() {
		panic(fmt.Sprintf("cpu: %v has gaps between its rows", t))
	}
	return memoryOf[E](t, t.Rows*t.Cols)
}

// bytesOf returns the bytes of t, which has no gaps.
func bytesOf(t tensor.Tensor) []byte {
	size := t.Type.Size()
	t.Type, t.Cols, t.Stride = tensor.U8, t.Cols*size, t.Stride*size
	return elements[byte](t)
}

// memoryOf returns n elements of type E from t's first on.
func memoryOf[E any](t tensor.Tensor, n int) []E {
	if n == 0 {
		return nil
	}
	var e E
	data := t.Mem.(*memory).data[t.Off : t.Off+n*int(unsafe.Sizeof(e))]
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(data))), n)
}

// floats returns the elements of an F32 tensor without gaps.
func floats(op string, t tensor.Tensor) []float32 {
	wantType(op, t, tensor.F32)
	return elements[float32](t)
}

// ints returns the elements of an I32 tensor.
func ints(op string, t tensor.Tensor) []int32 {
	wantType(op, t, tensor.I32)
	return elements[int32](t)
}

// bytesAs returns the elements of a U8 tensor.
func bytesAs(op string, t tensor.Tensor) []uint8 {
	wantType(op, t, tensor.U8)
	return elements[uint8](t)
}

func wantType(op string, t tensor.Tensor, want tensor.Type) {
	if t.Type != want {
		panic(fmt.Sprintf("cpu: %s: %v, want %v", op, t, want))
	}
}

// A strided is the elements of an F32 tensor whose rows may lie apart.
type strided struct {
	data         []float32
	stride, cols int
}

func (s strided) row(r int) []float32 { return s.data[r*s.stride : r*s.stride+s.cols] }

// rowsOf returns the elements of an F32 tensor.
func rowsOf(op string, t tensor.Tensor) strided {
	wantType(op, t, tensor.F32)
	if t.Dense() {
		return strided{elements[float32](t), t.Cols, t.Cols}
	}
	return strided{memoryOf[float32](t, (t.Rows-1)*t.Stride+t.Cols), t.Stride, t.Cols}
}

// flatten makes a single row of each of some tensors, if none has gaps: loops
// over elements then do not stop at the ends of rows.
func flatten(ts ...*tensor.Tensor) {
	for _, t := range ts {
		if !t.Dense() {
			return
		}
	}
	for _, t := range ts {
		*t = t.Reshape(1, t.Rows*t.Cols)
	}
}

// pieceSize is about how many elements of a loop one goroutine takes.
const pieceSize = 1 << 14

// rowsAtOnce is how many rows of so many columns one goroutine takes where little is done
// with each element: other cores take longer to wake than such rows take.
func rowsAtOnce(cols int) int { return max(rowTile, pieceSize/max(1, cols)) }

// pieces cuts rows of cols elements into pieces and calls f for them on all
// cores: columns lo to hi of row r.
func pieces(rows, cols int, f func(r, lo, hi int)) {
	if cols > pieceSize {
		cuts := (cols + pieceSize - 1) / pieceSize
		parallel.For(rows*cuts, func(i int) {
			lo := i % cuts * pieceSize
			f(i/cuts, lo, min(lo+pieceSize, cols))
		})
		return
	}
	parallel.Runs(rows, pieceSize/max(1, cols), func(first, last int) {
		for r := first; r < last; r++ {
			f(r, 0, cols)
		}
	})
}
