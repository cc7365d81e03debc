package subword

import "unicode/utf8"

// charIDs maps characters to ids by pages of 256.
type charIDs struct {
	pages [(utf8.MaxRune + 1) / 256]*[256]int32
}

// newCharIDs returns the ids of the tokens that are one character.
func newCharIDs(ids map[string]int32) *charIDs {
	c := new(charIDs)
	for token, id := range ids {
		if r, n := utf8.DecodeRuneInString(token); n > 0 && n == len(token) {
			c.set(r, id)
		}
	}
	return c
}

// set gives a character an id.
func (c *charIDs) set(r rune, id int32) {
	page := c.pages[r>>8]
	if page == nil {
		page = new([256]int32)
		for i := range page {
			page[i] = -1
		}
		c.pages[r>>8] = page
	}
	page[r&255] = id
}

// get returns the id of a character, or -1.
func (c *charIDs) get(r rune) int32 {
	if page := c.pages[r>>8]; page != nil {
		return page[r&255]
	}
	return -1
}
