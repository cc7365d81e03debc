// Package trie finds byte strings of a fixed set in texts.
package trie

import "slices"

// A Trie is a set of byte strings with a number each, as a double array: from
// state s the byte c leads to state base[s]+c+1 if that state's check is s.
// A key ends at state s if base[s] leads on by 0 to a state whose base is the
// complement of its number.
type Trie struct {
	base, check []int32
}

// New returns a trie of keys, each with its position as its number; of
// equal keys the last counts, empty keys are left out.
func New(keys []string) *Trie {
	order := make([]int32, 0, len(keys))
	for i, k := range keys {
		if k != "" {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch {
		case keys[a] < keys[b]:
			return -1
		case keys[a] > keys[b]:
			return 1
		}
		return 0
	})
	b := &trieBuilder{keys: keys, order: order}
	b.reserve(1 << 9)
	b.check[0] = 0
	b.build()
	return &Trie{base: b.base, check: b.check}
}

// Root is the state of the empty prefix.
const Root = int32(0)

// Step returns the state after state by the byte c, or -1.
func (t *Trie) Step(state int32, c byte) int32 {
	next := t.base[state] + int32(c) + 1
	if uint32(next) < uint32(len(t.check)) && t.check[next] == state {
		return next
	}
	return -1
}

// Value returns the number of the key that ends at state, or -1.
func (t *Trie) Value(state int32) int32 {
	if end := t.base[state]; uint32(end) < uint32(len(t.check)) && t.check[end] == state && end != state {
		return ^t.base[end]
	}
	return -1
}

// Longest returns the number and length of the longest key that s begins with, or -1.
func (t *Trie) Longest(s string) (number int32, length int) {
	number = -1
	state := Root
	for i := range len(s) {
		if state = t.Step(state, s[i]); state < 0 {
			break
		}
		if v := t.Value(state); v >= 0 {
			number, length = v, i+1
		}
	}
	return number, length
}

// A trieBuilder places the states of a trie, breadth first.
type trieBuilder struct {
	keys        []string
	order       []int32 // of keys, sorted
	base, check []int32
	queue       []branch
	free        int // no state below it is searched
}

// A branch is a state whose followers are not placed yet: those of the keys
// order[lo:hi], which agree on their first depth bytes.
type branch struct {
	state         int32
	lo, hi, depth int32
}

// unused is the check of a free state.
const unused = -1

// reserve makes room for n states.
func (b *trieBuilder) reserve(n int) {
	for len(b.check) < n {
		b.base = append(b.base, 0)
		b.check = append(b.check, unused)
	}
}

// build places the followers of every state.
func (b *trieBuilder) build() {
	var labels []int16
	for b.queue = []branch{{hi: int32(len(b.order))}}; len(b.queue) > 0; {
		at := b.queue[0]
		b.queue = b.queue[1:]
		labels = labels[:0]
		for i := at.lo; i < at.hi; i++ {
			if l := b.label(i, at.depth); len(labels) == 0 || labels[len(labels)-1] != l {
				labels = append(labels, l)
			}
		}
		if len(labels) > 0 {
			b.follow(at, labels)
		}
	}
}

// follow places the followers of one state, by their labels.
func (b *trieBuilder) follow(at branch, labels []int16) {
	base := b.place(labels)
	b.base[at.state] = base
	for _, l := range labels {
		b.check[base+int32(l)] = at.state
	}
	for lo := at.lo; lo < at.hi; {
		l := b.label(lo, at.depth)
		hi := lo + 1
		for hi < at.hi && b.label(hi, at.depth) == l {
			hi++
		}
		if l == 0 {
			b.base[base] = ^b.order[hi-1]
		} else {
			b.queue = append(b.queue, branch{base + int32(l), lo, hi, at.depth + 1})
		}
		lo = hi
	}
}

// label is 0 where key order[i] ends, else its byte at depth plus one.
func (b *trieBuilder) label(i, depth int32) int16 {
	key := b.keys[b.order[i]]
	if int(depth) == len(key) {
		return 0
	}
	return int16(key[depth]) + 1
}

// maxMisses bounds how often the same stretch of states is searched in vain.
const maxMisses = 256

// place finds a base for which the states of all labels are free.
func (b *trieBuilder) place(labels []int16) int32 {
	for b.check[b.free] != unused {
		b.free++
		b.reserve(b.free + 258)
	}
	misses := 0
	for at := max(b.free, int(labels[0])+1); ; at++ {
		b.reserve(at + 258)
		if b.check[at] != unused {
			misses++
			continue
		}
		base := at - int(labels[0])
		if b.fits(base, labels) {
			if misses > maxMisses { // the stretch is nearly full: do not search it again
				b.free = at
			}
			return int32(base)
		}
		misses++
	}
}

// fits reports whether the states of all labels after base are free.
func (b *trieBuilder) fits(base int, labels []int16) bool {
	for _, l := range labels {
		if b.check[base+int(l)] != unused {
			return false
		}
	}
	return true
}
