package infer

// MostDraft is how many tokens may be drafted at a time: GPUs multiply eight rows in little more time than four.
const MostDraft = 7

// ngrams drafts what follows a text by what has followed its last tokens before: three, or two where those are new ("prompt lookup
// decoding", Saxena 2023).
type ngrams struct {
	text  []int32
	three map[[3]int32]int // what is behind the last time that they were followed by something
	two   map[[2]int32]int
}

func newNgrams() *ngrams { return &ngrams{three: map[[3]int32]int{}, two: map[[2]int32]int{}} }

// add lets the text go on.
func (g *ngrams) add(ids ...int32) {
	for _, id := range ids {
		n := len(g.text)
		if n >= 2 {
			g.two[[2]int32(g.text[n-2:])] = n
		}
		if n >= 3 {
			g.three[[3]int32(g.text[n-3:])] = n
		}
		g.text = append(g.text, id)
	}
}

// draft returns n tokens that may follow, or none. What would be behind the end of the text is what has been drafted.
func (g *ngrams) draft(n int) []int32 {
	from, ok := g.before()
	if !ok || n < 1 {
		return nil
	}
	end := len(g.text)
	draft := make([]int32, n)
	for i := range draft {
		if at := from + i; at < end {
			draft[i] = g.text[at]
		} else {
			draft[i] = draft[at-end]
		}
	}
	return draft
}

// before returns where what followed the last tokens begins.
func (g *ngrams) before() (at int, ok bool) {
	n := len(g.text)
	if n >= 3 {
		if at, ok = g.three[[3]int32(g.text[n-3:])]; ok {
			return at, true
		}
	}
	if n >= 2 {
		at, ok = g.two[[2]int32(g.text[n-2:])]
	}
	return at, ok
}
