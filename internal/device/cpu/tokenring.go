package cpu

import (
	"fmt"

	"exl2/internal/device"
)

// tokenRing is what Sample has chosen, by entry and row.
type tokenRing struct {
	d       *Device
	next    []int // by row: the number of its next entry
	numbers [device.RingEntries][]int
	tokens  [device.RingEntries][]int32
}

// NewTokenRing makes a ring for so many rows.
func (d *Device) NewTokenRing(rows int) device.TokenRing {
	r := &tokenRing{d: d, next: make([]int, rows)}
	for i := range r.numbers {
		r.numbers[i], r.tokens[i] = make([]int, rows), make([]int32, rows)
	}
	return r
}

func (r *tokenRing) add(row int, token int32) {
	n := r.next[row]
	r.numbers[n%len(r.numbers)][row], r.tokens[n%len(r.tokens)][row] = n, token
	r.next[row]++
}

// Begin numbers the next entries.
func (r *tokenRing) Begin(n int) {
	for i := range r.next {
		r.next[i] = n
	}
}

// Read returns an entry; nothing is ever under way.
func (r *tokenRing) Read(n, rows int) ([]int32, error) {
	if err := r.d.Sync(); err != nil {
		return nil, err
	}
	at := n % len(r.numbers)
	for _, have := range r.numbers[at][:rows] {
		if have != n {
			panic(fmt.Sprintf("cpu: TokenRing: entry %d of %d rows is not there", n, rows))
		}
	}
	return append([]int32(nil), r.tokens[at][:rows]...), nil
}

// Beside is false: an operation is done when it returns.
func (r *tokenRing) Beside() bool { return false }

// Free leaves the memory to the garbage collector.
func (r *tokenRing) Free() {}
