package infer

import "context"

// MostDraft is how many tokens may be drafted at a time: GPUs multiply eight rows in little more time than four.
const MostDraft = 7

// ngrams drafts what follows a text by what has followed its last tokens before ("prompt lookup decoding", Saxena 2023): where most of them stood
// alike, two at least, and of such places at the last one.
type ngrams struct {
	text    []int32
	last    map[pair]int // of two tokens, what is behind the last time that they were followed by something
	earlier []int        // by what is behind two tokens, the same of the time before, or 0
}

// leastAlike is how many tokens have to be alike, mostAlike how many are compared, and mostPlaces where the last two stood.
const (
	leastAlike = 2
	mostAlike  = 16
	mostPlaces = 64
)

// A pair is tokens that stand behind each other, as few as have to be alike.
type pair [leastAlike]int32

func newNgrams() *ngrams { return &ngrams{last: map[pair]int{}} }

// add lets the text go on.
func (g *ngrams) add(ids ...int32) {
	for _, id := range ids {
		n, before := len(g.text), 0
		if n >= leastAlike {
			two := pair(g.text[n-leastAlike:])
			before, g.last[two] = g.last[two], n
		}
		g.text, g.earlier = append(g.text, id), append(g.earlier, before)
	}
}

func (g *ngrams) drafts(n int) bool { return n > 0 && g.alike() > 0 }

// draft returns n tokens that may follow. What would be behind the end of the text is what has been drafted.
func (g *ngrams) draft(_ context.Context, n int) ([]int32, error) {
	from := g.alike()
	end := len(g.text)
	draft := make([]int32, n)
	for i := range draft {
		if at := from + i; at < end {
			draft[i] = g.text[at]
		} else {
			draft[i] = draft[at-end]
		}
	}
	return draft, nil
}

// alike returns where what followed the last tokens begins, or 0.
func (g *ngrams) alike() (best int) {
	n := len(g.text)
	if n < leastAlike {
		return 0
	}
	most := 0
	at := g.last[pair(g.text[n-leastAlike:])]
	for range mostPlaces {
		if at == 0 || most == mostAlike {
			break
		}
		if same := g.same(at); same > most {
			best, most = at, same
		}
		at = g.earlier[at]
	}
	return best
}

// same returns how many tokens in front of a place are those in front of the end.
func (g *ngrams) same(at int) (n int) {
	for n < min(at, mostAlike) && g.text[at-1-n] == g.text[len(g.text)-1-n] {
		n++
	}
	return n
}
