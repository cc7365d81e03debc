package subword

// Limits of a wordCache: words longer than maxCachedWord bytes are seldom met
// twice; at maxCachedWords the cache starts anew, so that it follows the text.
const (
	maxCachedWord  = 64
	maxCachedWords = 1 << 16
)

// A wordCache remembers the ids of words: a hash table with linear probing. It
// has no pointers per word, which the garbage collector would follow.
type wordCache struct {
	slots []slot // a power of two of them, at most half in use
	used  int
	text  []byte // of all words
	ids   []int32
}

// A slot is a word and its ids, as ranges of text and ids; free slots have no text.
type slot struct {
	hash                 uint32
	text, end, ids, last uint32
}

// hash is FNV-1a, folded to 32 bits.
func hash(word string) uint32 {
	h := uint64(14695981039346656037)
	for i := range len(word) {
		h = (h ^ uint64(word[i])) * 1099511628211
	}
	return uint32(h>>32) ^ uint32(h)
}

// find returns the slot of a word, or the free one where it belongs.
func (c *wordCache) find(word string, h uint32) *slot {
	mask := uint32(len(c.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &c.slots[i]
		if s.end == s.text || s.hash == h && string(c.text[s.text:s.end]) == word {
			return s
		}
	}
}

// get returns the ids of a word.
func (c *wordCache) get(word string) ([]int32, bool) {
	if len(c.slots) == 0 || len(word) > maxCachedWord {
		return nil, false
	}
	s := c.find(word, hash(word))
	return c.ids[s.ids:s.last], s.end > s.text
}

// put remembers the ids of a word.
func (c *wordCache) put(word string, ids []int32) {
	if word == "" || len(word) > maxCachedWord {
		return
	}
	switch {
	case len(c.slots) == 0:
		c.slots = make([]slot, 1<<8)
	case c.used >= maxCachedWords:
		clear(c.slots)
		c.used, c.text, c.ids = 0, c.text[:0], c.ids[:0]
	case 2*c.used >= len(c.slots):
		c.grow()
	}
	h := hash(word)
	s := c.find(word, h)
	if s.end > s.text {
		return
	}
	*s = slot{hash: h, text: uint32(len(c.text)), ids: uint32(len(c.ids))}
	c.text, c.ids = append(c.text, word...), append(c.ids, ids...)
	s.end, s.last = uint32(len(c.text)), uint32(len(c.ids))
	c.used++
}

// grow doubles the table.
func (c *wordCache) grow() {
	old := c.slots
	c.slots = make([]slot, 2*len(old))
	mask := uint32(len(c.slots) - 1)
	for _, s := range old {
		if s.end == s.text {
			continue
		}
		i := s.hash & mask
		for c.slots[i].end > c.slots[i].text {
			i = (i + 1) & mask
		}
		c.slots[i] = s
	}
}
