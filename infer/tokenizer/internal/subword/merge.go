package subword

// A symbol is a part of a word while its merges are done: an element of a
// list in which merged symbols are skipped.
type symbol struct {
	id         int32
	prev, next int32 // -1 at the ends
}

// gone is the id of a symbol that was merged into the one before it.
const gone = -1

// mergeSymbols merges adjacent symbols of w.syms until no pair has a merge:
// always the pair of lowest rank, of equal ranks the leftmost. The heap makes
// that n log n for a word of n symbols, however it repeats.
func (w *Work) mergeSymbols(pairs *pairTable) {
	h := w.heap[:0]
	for i := 0; i+1 < len(w.syms); i++ {
		if m, ok := pairs.get(w.syms[i].id, w.syms[i+1].id); ok {
			h = append(h, heapKey(m.rank, int32(i)))
		}
	}
	heapify(h)
	for len(h) > 0 {
		rank, at := int32(h[0]>>32), int32(uint32(h[0]))
		h = heapPop(h)
		left := &w.syms[at]
		if left.id == gone || left.next < 0 {
			continue
		}
		right := &w.syms[left.next]
		m, ok := pairs.get(left.id, right.id)
		if !ok || m.rank != rank { // the pair that was pushed is no longer there
			continue
		}
		left.id, left.next, right.id = m.id, right.next, gone
		if left.next >= 0 {
			w.syms[left.next].prev = at
			if m, ok := pairs.get(left.id, w.syms[left.next].id); ok {
				h = heapPush(h, heapKey(m.rank, at))
			}
		}
		if left.prev >= 0 {
			if m, ok := pairs.get(w.syms[left.prev].id, left.id); ok {
				h = heapPush(h, heapKey(m.rank, left.prev))
			}
		}
	}
	w.heap = h
}

// heapKey orders by rank, then by position; both are at least 0.
func heapKey(rank, at int32) uint64 { return uint64(rank)<<32 | uint64(at) }

// heapify makes h a binary heap, smallest first.
func heapify(h []uint64) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		siftDown(h, i)
	}
}

// heapPop removes the smallest element, h[0].
func heapPop(h []uint64) []uint64 {
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	siftDown(h, 0)
	return h
}

// siftDown moves h[i] down to where it belongs.
func siftDown(h []uint64, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h[right] < h[child] {
			child = right
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// heapPush adds an element.
func heapPush(h []uint64, key uint64) []uint64 {
	h = append(h, key)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up] <= h[i] {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	return h
}
