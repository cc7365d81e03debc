package cpu

import (
	"math"

	"exl2/internal/device/cpu/simd"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// The search for scales tries the group's largest scale at these multiples of
// the largest base scale, max|w|/(2^(bits-1) - ½), and for every column the
// codes whose scale is within the bounds around the column's own base scale.
const (
	largestFrom, largestTo, largestSteps = 0.40, 1.15, 26
	scaleBelow, scaleAbove               = 0.40, 1.15
)

// SearchScale chooses the scales of one group. For each candidate of the
// largest scale every column takes the code with the smallest weighted squared
// error; the candidate with the smallest sum over columns wins.
func (d *Device) SearchScale(scale, largest, w, importance tensor.Tensor, bits int) {
	n := w.Cols
	want(scale.Cols == n && importance.Cols == w.Rows && largest.Rows*largest.Cols == 1, "SearchScale", scale, largest, w, importance)
	s := scaleSearch{w: floats("SearchScale", w), n: n, tiles: make([]*scaleTile, (n+scaleTileCols-1)/scaleTileCols)}
	rows := floats("SearchScale", importance)
	parallel.For(len(s.tiles), func(t int) {
		lo := t * scaleTileCols
		s.tiles[t] = newScaleTile(s.w[lo:], n, min(scaleTileCols, n-lo), rows, bits)
	})
	top := float32(0)
	for _, t := range s.tiles {
		for _, b := range t.base[:t.cols] {
			top = max(top, b)
		}
	}
	s.candidates = scaleCandidates(top)
	s.chosen = make([]uint8, len(s.candidates)*n)
	best := s.run(d)
	elements[half.F16](largest)[0] = s.candidates[best].largest
	copy(elements[uint8](scale), s.chosen[best*n:(best+1)*n])
}

// A scaleCandidate is a largest scale to try and the scales of its codes.
type scaleCandidate struct {
	largest      half.F16
	scales, invs [16]float32 // invs: 1/scale, 0 for 0
}

// scaleCandidates lists the largest scales to try, in rising order and without
// repetition: fp16 steps are coarse for tiny scales.
func scaleCandidates(top float32) []scaleCandidate {
	var list []scaleCandidate
	for i := range largestSteps {
		p := largestFrom + (largestTo-largestFrom)*float64(i)/(largestSteps-1)
		c := scaleCandidate{largest: half.ToF16(min(float32(p)*top, half.MaxF16))}
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

// scaleSearch is the search for the scales of one group, cut into tiles.
type scaleSearch struct {
	w          []float32 // [rows, n]
	n          int
	tiles      []*scaleTile
	candidates []scaleCandidate
	chosen     []uint8 // [candidates, n]
}

// run returns the best candidate. It tries a likely one first, and then those
// whose largest scale alone does not cost more already.
func (s *scaleSearch) run(d *Device) (best int) {
	likely := len(s.candidates) * 3 / 4
	sums := s.try(d, []int{likely})
	var rest []int
	for i, c := range s.candidates {
		floor := 0.0
		for _, t := range s.tiles {
			floor += t.floor(c.scales[15])
		}
		if i != likely && !(leastShare*floor > sums[likely]) {
			rest = append(rest, i)
		}
	}
	for i, sum := range s.try(d, rest) {
		if i != likely {
			sums[i] = sum
		}
	}
	least := math.Inf(1)
	for i, sum := range sums {
		if sum < least {
			best, least = i, sum
		}
	}
	return best
}

// try returns the sums of errors of some candidates, which rise; those of the
// others are infinite.
func (s *scaleSearch) try(d *Device, list []int) []float64 {
	parts := make([]float64, len(s.tiles)*len(list))
	parallel.For(len(s.tiles), func(i int) {
		t, lo := s.tiles[i], i*scaleTileCols
		copied, release := d.borrowed(len(t.importance) * t.cols)
		defer release()
		t.start(copied, s.w[lo:], s.n)
		for k, c := range list {
			at := c*s.n + lo
			parts[i*len(list)+k] = t.choose(s.chosen[at:at+t.cols], &s.candidates[c])
		}
	})
	sums := make([]float64, len(s.candidates))
	for i := range sums {
		sums[i] = math.Inf(1)
	}
	for k, c := range list {
		sums[c] = 0
		for t := range s.tiles {
			sums[c] += parts[t*len(list)+k]
		}
	}
	return sums
}

// scaleTileCols is the columns that are searched side by side: the vector
// kernels take so many at a time, and a group of them fits the first-level cache.
const scaleTileCols = 32

// A perColumn has a number for each column of a tile.
type perColumn [scaleTileCols]float32

// A scaleTile is the search for the scales of some columns of a group.
type scaleTile struct {
	cols       int
	w          []float32 // [rows, cols]
	importance []float32
	bits       int
	base       perColumn // the scale that just holds the column's largest weight

	// What a scale loses at least: it cannot reach the largest weight, peak, if
	// that is more than reach times the scale.
	peak, reach, weight perColumn

	first, last [scaleTileCols]uint8 // codes within bounds for the candidate at hand
	code        [scaleTileCols]uint8 // the codes that are tried
	scale, inv  perColumn            // theirs
	trial       perColumn            // their errors
	least       perColumn            // the smallest so far
}

// newScaleTile measures columns of w, in rows of stride.
func newScaleTile(w []float32, stride, cols int, importance []float32, bits int) *scaleTile {
	t := &scaleTile{cols: cols, importance: importance, bits: bits}
	var largest [scaleTileCols]uint64 // magnitude, row and sign, in this order of weight
	for r := range importance {
		for c, v := range w[r*stride : r*stride+cols] {
			b := math.Float32bits(v)
			largest[c] = max(largest[c], uint64(b&^(1<<31))<<32|uint64(r)<<1|uint64(b>>31))
		}
	}
	zero := float32(int(1) << (bits - 1))
	for c, l := range largest[:cols] {
		t.peak[c] = math.Float32frombits(uint32(l >> 32))
		t.base[c] = t.peak[c] / (zero - 0.5)
		t.reach[c] = zero - 1 + float32(l&1)
		t.weight[c] = importance[uint32(l)>>1]
	}
	return t
}

// floor returns what the columns lose at least if no scale is above largest.
func (t *scaleTile) floor(largest float32) float64 {
	sum := 0.0
	for c := range t.cols {
		over := max(t.peak[c]-t.reach[c]*largest, 0)
		sum += float64(t.weight[c] * over * over)
	}
	return sum
}

// start begins with the smallest of some candidates. It copies the columns to
// dst, where they lie together.
func (t *scaleTile) start(dst, w []float32, stride int) {
	t.w = dst
	for c := range t.first {
		t.first[c], t.last[c] = 15, 15
	}
	for r := range t.importance {
		copy(dst[r*t.cols:(r+1)*t.cols], w[r*stride:])
	}
}

// choose stores the codes with the smallest errors in codes and returns the sum
// of those. Every column tries its codes from the last within bounds down, all
// of them side by side, until no smaller scale can be better. Among equals the
// smallest code wins.
func (t *scaleTile) choose(codes []uint8, candidate *scaleCandidate) float64 {
	t.bound(&candidate.scales)
	copy(codes, t.first[:])
	grid := simd.Grid{Bits: t.bits, Scale: t.scale[:t.cols], Inv: t.inv[:t.cols]}
	for step := 0; t.aim(candidate, step); step++ {
		grid.Errors(t.trial[:t.cols], t.w, t.cols, t.importance)
		for c, e := range t.trial[:t.cols] {
			if e <= t.least[c] {
				t.least[c], codes[c] = e, t.code[c]
			}
		}
	}
	sum := 0.0
	for _, e := range t.least[:t.cols] {
		sum += float64(e)
	}
	return sum
}

// bound finds the first and the last code whose scales are within bounds around
// each column's base scale; the nearest one if there is none. As scales rise
// from candidate to candidate, both codes fall.
func (t *scaleTile) bound(scales *[16]float32) {
	for c, b := range t.base[:t.cols] {
		lower, upper := scaleBelow*b, scaleAbove*b
		first, last := t.first[c], t.last[c]
		for first > 0 && scales[first-1] >= lower {
			first--
		}
		for last > first && scales[last] > upper {
			last--
		}
		t.first[c], t.last[c], t.least[c] = first, max(first, last), float32(math.Inf(1))
	}
}

// leastShare is how much less than the real minimum a rounded sum can be.
const leastShare = 1 - 1e-4

// aim turns to the codes step below the last and reports whether any of them may
// be better than what was tried before.
func (t *scaleTile) aim(candidate *scaleCandidate, step int) bool {
	promising := step == 0
	for c := range t.cols {
		code := max(int(t.last[c])-step, int(t.first[c]))
		scale := candidate.scales[code&15]
		t.code[c], t.scale[c], t.inv[c] = uint8(code), scale, candidate.invs[code&15]
		if int(t.last[c])-step >= int(t.first[c]) {
			over := max(t.peak[c]-t.reach[c]*scale, 0)
			promising = promising || !(leastShare*t.weight[c]*over*over > t.least[c])
		}
	}
	return promising
}
