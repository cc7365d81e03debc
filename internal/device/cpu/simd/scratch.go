package simd

import (
	"math/bits"
	"sync"
	"unsafe"
)

// A shelf keeps memory that work is done in for whoever needs some next. What a
// collection of garbage would take has to be cleared, page by page, to come back.
type shelf[T Float] struct {
	mu    sync.Mutex
	kept  [bits.UintSize + 1][][]T // by size, powers of two
	bytes int
}

// What is kept: pieces that are not too large, and so many bytes in all.
const (
	keptPiece = 32 << 20
	keptBytes = 512 << 20
)

var (
	shelf32 shelf[float32]
	shelf64 shelf[float64]
)

// shelfOf returns the shelf of a type.
func shelfOf[T Float]() *shelf[T] {
	var s any = &shelf32
	if of, ok := s.(*shelf[T]); ok {
		return of
	}
	s = &shelf64
	return s.(*shelf[T])
}

// Scratch returns n floats of unknown contents.
func Scratch(n int) []float32 { return shelf32.take(n) }

// Keep takes back what Scratch has returned.
func Keep(s []float32) { shelf32.give(s) }

// Scratch64 is Scratch of float64.
func Scratch64(n int) []float64 { return shelf64.take(n) }

// Keep64 is Keep of float64.
func Keep64(s []float64) { shelf64.give(s) }

func (s *shelf[T]) take(n int) []T {
	class := bits.Len(uint(max(n, 1) - 1))
	s.mu.Lock()
	if list := s.kept[class]; len(list) > 0 {
		last := len(list) - 1
		x := list[last]
		s.kept[class], s.bytes = list[:last], s.bytes-sizeOf(x)
		s.mu.Unlock()
		return x[:n]
	}
	s.mu.Unlock()
	if n*int(unsafe.Sizeof(T(0))) > keptPiece {
		return make([]T, n)
	}
	return make([]T, n, 1<<class)
}

func (s *shelf[T]) give(x []T) {
	size := cap(x)
	if size == 0 || size&(size-1) != 0 || sizeOf(x) > keptPiece {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if class := bits.Len(uint(size - 1)); s.bytes+sizeOf(x) <= keptBytes {
		s.kept[class], s.bytes = append(s.kept[class], x), s.bytes+sizeOf(x)
	}
}

// sizeOf is the bytes behind a slice.
func sizeOf[T Float](x []T) int { return cap(x) * int(unsafe.Sizeof(T(0))) }
