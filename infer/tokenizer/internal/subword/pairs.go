package subword

// A merge is what two adjacent symbols become, and how early.
type merge struct {
	rank int32 // lower merges first
	id   int32 // of the merged symbol
}

// pairTable maps pairs of symbols to their merges: a hash table with linear
// probing, since a lookup in it is the inner step of BPE.
type pairTable struct {
	keys  []uint64 // of a pair, plus one; 0 is free
	vals  []merge
	shift uint // of a hash, to an index
	used  int
}

// newPairTable returns a table with room for n pairs.
func newPairTable(n int) *pairTable {
	bits := uint(4)
	for 1<<bits < 2*n {
		bits++
	}
	return &pairTable{keys: make([]uint64, 1<<bits), vals: make([]merge, 1<<bits), shift: 64 - bits}
}

// slot returns the index of key, or of the free place where it belongs.
func (t *pairTable) slot(key uint64) int {
	mask := len(t.keys) - 1
	i := int(key * 0x9e3779b97f4a7c15 >> t.shift) // the golden ratio, Knuth's multiplicative hash
	for t.keys[i] != key && t.keys[i] != 0 {
		i = (i + 1) & mask
	}
	return i
}

// pairKey is never 0.
func pairKey(a, b int32) uint64 { return (uint64(uint32(a))<<32 | uint64(uint32(b))) + 1 }

// put sets the merge of a pair; a later one replaces an earlier one.
func (t *pairTable) put(a, b int32, m merge) {
	key := pairKey(a, b)
	i := t.slot(key)
	if t.keys[i] == 0 {
		if t.used++; 2*t.used > len(t.keys) {
			t.grow()
			i = t.slot(key)
		}
	}
	t.keys[i], t.vals[i] = key, m
}

// grow doubles the table.
func (t *pairTable) grow() {
	old := *t
	*t = *newPairTable(len(old.keys))
	t.used = old.used
	for i, key := range old.keys {
		if key != 0 {
			j := t.slot(key)
			t.keys[j], t.vals[j] = key, old.vals[i]
		}
	}
}

// get returns the merge of a pair.
func (t *pairTable) get(a, b int32) (merge, bool) {
	i := t.slot(pairKey(a, b))
	return t.vals[i], t.keys[i] != 0
}
