package simd

import "testing"

// What is kept serves whoever asks for no more than it holds, once.
func TestScratch(t *testing.T) {
	var s shelf[float32]
	for _, n := range []int{0, 1, 2, 3, 100, 1024, 1025} {
		a := s.take(n)
		if len(a) != n {
			t.Fatalf("%d floats, want %d", len(a), n)
		}
		s.give(a)
		b, c := s.take(n), s.take(n)
		if n > 0 && &a[0] != &b[0] {
			t.Errorf("%d floats: not what was kept", n)
		}
		if n > 0 && &b[0] == &c[0] {
			t.Errorf("%d floats: given to two", n)
		}
	}
	if s.bytes != 0 {
		t.Errorf("%d bytes are kept, want none", s.bytes)
	}
}

// Large pieces are not kept, nor is more than so much.
func TestScratchLimits(t *testing.T) {
	var s shelf[float64]
	s.give(s.take(keptPiece/8 + 1))
	if s.bytes != 0 {
		t.Errorf("a large piece is kept: %d bytes", s.bytes)
	}
	s.bytes = keptBytes - 8*1024
	s.give(s.take(2048))
	s.give(s.take(512))
	if want := keptBytes - 8*512; s.bytes != want {
		t.Errorf("%d bytes are kept, want %d", s.bytes, want)
	}
	s.give(make([]float64, 3)) // not from here
	if want := keptBytes - 8*512; s.bytes != want {
		t.Errorf("%d bytes are kept after what was not taken, want %d", s.bytes, want)
	}
}
