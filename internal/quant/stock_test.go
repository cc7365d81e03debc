package quant

import (
	"testing"

	"exl2/internal/exl2"
)

// Memory is that of one of the last two lists that were kept, if that is not much larger,
// and nobody else's.
func TestStock(t *testing.T) {
	var s Stock
	of := func(n int) *exl2.Matrix { return &exl2.Matrix{Words: make([]uint32, n)} }
	old, first, second := of(100), of(100), of(300)
	s.Keep([]*exl2.Matrix{old})
	s.Keep([]*exl2.Matrix{first})
	s.Keep([]*exl2.Matrix{second})
	same := func(w []uint32, m *exl2.Matrix) bool { return &w[0] == &m.Words[0] }
	for _, c := range []struct {
		n    int
		from *exl2.Matrix
	}{{150, nil}, {90, first}, {90, nil}, {400, nil}, {300, second}, {300, nil}} {
		w := s.take(c.n)
		if len(w) != c.n || c.from != nil && !same(w, c.from) || c.from == nil && (same(w, old) || same(w, first) || same(w, second)) {
			t.Errorf("%d words: %d, not those of %p", c.n, len(w), c.from)
		}
	}
	var none *Stock
	if len(none.take(7)) != 7 {
		t.Error("without a stock")
	}
}
