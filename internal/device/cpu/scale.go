package cpu

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
	"math"

	"exl2/internal/exl2"
	"exl2/internal/half"
)

// The search for scales tries the group's largest scale at these multiples of
// the largest base scale, max|w|/(2^(bits-1) - ½), and for every column the
// codes whose scale is within the bounds around the column's own base scale.
const (
	largestFrom, largestTo, largestSteps = 0.40, 1.15, 26
	scaleBelow, scaleAbove               = 0.40, 1.15
)

// SearchScale chooses the scales of group g of every matrix of the list.
func (d *Device) SearchScale(list []device.Coding, g int, importance tensor.Tensor) {
	weights := floats("SearchScale", importance)
	runChains(len(list), len(list), func(i int) *phase {
		c := codingOf("SearchScale", list[i])
		first, end := c.groups[g].Row, c.groups[g].Row+c.groups[g].Rows
		want(importance.Rows == 1 && importance.Cols >= end && c.w != nil, "SearchScale", importance, list[i].Codes)
		s := newScaleSearch(c.n)
		tiles := func(then func() *phase, f func(lo, hi int)) *phase {
			return &phase{tasks: len(s.tiles), then: then, task: func(t int) { f(t*scaleTileCols, min(c.n, (t+1)*scaleTileCols)) }}
		}
		store := func() *phase {
			best := s.best()
			c.largest[g] = s.candidates[best].largest
			copy(c.scales[g*c.n:(g+1)*c.n], s.chosen[best])
			return nil
		}
		rest := func() *phase {
			s.tryRest()
			return tiles(store, s.try)
		}
		likely := func() *phase {
			s.tryLikely(c.groups[g].Bits)
			return tiles(rest, func(lo, hi int) {
				s.try(lo, hi)
				s.bound(lo, hi)
			})
		}
		row, _ := c.rows(g)
		return tiles(likely, func(lo, hi int) { s.measure(lo, hi, c.w[row*c.n+lo:], c.n, weights[first:end], c.groups[g].Bits) })
	})
}

// A scaleCandidate is a largest scale to try and the scales of its codes.
type scaleCandidate struct {
	largest      half.F16
	scales, invs [16]float32 // invs: 1/scale, 0 for 0
}

// scaleCandidates lists the largest scales to try, in rising order and without
// repetition: fp16 steps are coarse for tiny scales. With none of them the most
// negative code decodes to more than fp16 can hold. It appends them to list.
func scaleCandidates(list []scaleCandidate, top float32, bits int) []scaleCandidate {
	most := float32(half.MaxF16) / float32(int(1)<<(bits-1))
	for i := range largestSteps {
		p := largestFrom + (largestTo-largestFrom)*float64(i)/(largestSteps-1)
		c := scaleCandidate{largest: half.ToF16(min(float32(p)*top, most))}
		if len(list) > 0 && c.largest == list[len(list)-1].largest {
			continue
		}
		for k, v := range exl2.ScaleTable(c.largest) {
			if c.scales[k] = v.Float32(); c.scales[k] != 0 {
				c.invs[k] = 1 / c.scales[k]
			}
		}
		list = append(list, c)
	}
	return list
}

// scaleSearch is the search for the scales of one group after another. Between
// its steps, tiles of columns may be worked on by any goroutines.
type scaleSearch struct {
	tiles      []scaleTile
	candidates []scaleCandidate
	chosen     [largestSteps][]uint8 // codes by candidate and column
	list       []int                 // candidates being tried, which rise
	likely     int                   // the one that is tried first
	sums       [largestSteps]float64 // of errors; infinite if not tried
}

func newScaleSearch(n int) *scaleSearch {
	s := &scaleSearch{tiles: make([]scaleTile, (n+scaleTileCols-1)/scaleTileCols)}
	s.candidates, s.list = make([]scaleCandidate, 0, largestSteps), make([]int, 0, largestSteps)
	codes := make([]uint8, largestSteps*n)
	for i := range s.chosen {
		s.chosen[i] = codes[i*n : (i+1)*n]
	}
	return s
}

// each calls f for the tiles of columns lo to hi.
func (s *scaleSearch) each(lo, hi int, f func(t *scaleTile, lo, hi int)) {
	for ; lo < hi; lo += scaleTileCols {
		f(&s.tiles[lo/scaleTileCols], lo, min(lo+scaleTileCols, hi))
	}
}

// measure begins with a group whose columns lo to hi are w, in rows of stride.
func (s *scaleSearch) measure(lo, hi int, w []float32, stride int, importance []float32, bits int) {
	s.each(lo, hi, func(t *scaleTile, from, to int) { t.measure(w[from-lo:], stride, to-from, importance, bits) })
}

// tryLikely lists the candidates once all tiles are measured, and turns to a
// likely one.
func (s *scaleSearch) tryLikely(bits int) {
	top := float32(0)
	for i := range s.tiles {
		for _, b := range s.tiles[i].base[:s.tiles[i].cols] {
			top = max(top, b)
		}
	}
	s.candidates = scaleCandidates(s.candidates[:0], top, bits)
	s.likely = len(s.candidates) * 3 / 4
	s.list = append(s.list[:0], s.likely)
	for i := range s.sums {
		s.sums[i] = math.Inf(1)
	}
}

// tryRest turns to the other candidates, but for those whose largest scale alone
// costs more than the likely one does.
func (s *scaleSearch) tryRest() {
	s.add()
	s.list = s.list[:0]
	for i := range s.candidates {
		floor := 0.0
		for t := range s.tiles {
			floor += s.tiles[t].floors[i]
		}
		if i != s.likely && !(leastShare*floor > s.sums[s.likely]) {
			s.list = append(s.list, i)
		}
	}
}

// try tries the candidates of the list on columns lo to hi.
func (s *scaleSearch) try(lo, hi int) {
	s.each(lo, hi, func(t *scaleTile, lo, hi int) {
		t.start()
		for _, c := range s.list {
			t.errors[c] = t.choose(s.chosen[c][lo:hi], &s.candidates[c])
		}
	})
}

// bound computes what columns lo to hi lose at least with each candidate.
func (s *scaleSearch) bound(lo, hi int) {
	s.each(lo, hi, func(t *scaleTile, _, _ int) {
		for i := range s.candidates {
			t.floors[i] = t.floor(s.candidates[i].scales[15])
		}
	})
}

// add adds up the errors of the tiles, in their order.
func (s *scaleSearch) add() {
	for _, c := range s.list {
		s.sums[c] = 0
		for t := range s.tiles {
			s.sums[c] += s.tiles[t].errors[c]
		}
	}
}

// best returns the best candidate.
func (s *scaleSearch) best() (best int) {
	s.add()
	least := math.Inf(1)
	for i, sum := range s.sums[:len(s.candidates)] {
		if sum < least {
			best, least = i, sum
		}
	}
	return best
}
