package model

import "slices"

// Pages says which pages of a cache belong to which sequence. At first every
// sequence has pages of its own; Share has sequences that begin alike use the
// same ones.
type Pages struct {
	each  int
	table [][]int32 // by sequence
	users []int     // sequences, by page
}

// NewPages gives every sequence its own pages.
func NewPages(z CacheSize) *Pages {
	p := &Pages{each: z.PagesEach(), table: make([][]int32, z.Sequences), users: make([]int, z.Sequences*z.PagesEach())}
	for s := range p.table {
		for i := range p.each {
			page := s*p.each + i
			p.table[s], p.users[page] = append(p.table[s], int32(page)), 1
		}
	}
	return p
}

// Share has sequence to use the whole pages that hold the first positions of
// sequence from, and returns how many positions those are. Neither may be
// written there any more.
func (p *Pages) Share(to, from, positions int) int {
	n := min(positions/PageRows, p.each)
	for i, page := range p.table[from][:n] {
		p.put(to, i, page)
	}
	return n * PageRows
}

// Own gives sequence s pages of its own from a position on, which lies at the
// beginning of a page, in the place of those that it shares.
func (p *Pages) Own(s, position int) {
	for i := position / PageRows; i < p.each; i++ {
		if page := p.table[s][i]; p.users[page] > 1 {
			p.put(s, i, int32(slices.Index(p.users, 0)))
		}
	}
}

// put makes page the ith of sequence s. As every place of the table uses one
// page and there are as many pages as places, a shared page leaves one unused.
func (p *Pages) put(s, i int, page int32) {
	p.users[p.table[s][i]]--
	p.users[page]++
	p.table[s][i] = page
}

// Table returns the page numbers by sequence.
func (p *Pages) Table() []int32 { return slices.Concat(p.table...) }

// Shared reports whether another sequence uses the page that holds a position.
func (p *Pages) Shared(s, position int) bool { return p.users[p.table[s][position/PageRows]] > 1 }
