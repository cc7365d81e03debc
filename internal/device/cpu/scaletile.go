package cpu

import (
	"math"

	"exl2/internal/device/cpu/simd"
)

// scaleTileCols is the columns that are searched side by side: the vector
// kernels take so many at a time, and a group of them fits the first-level cache.
const scaleTileCols = 32

// A perColumn has a number for each column of a tile.
type perColumn [scaleTileCols]float32

// A scaleTile is the search for the scales of some columns of a group.
type scaleTile struct {
	cols       int
	w          []float32 // in rows of stride
	stride     int
	importance []float32
	bits       int
	base       perColumn // the scale that just holds the column's largest weight

	// What a scale loses at least: it cannot reach the largest weight, peak, if
	// that is more than reach times the scale.
	peak, reach, weight perColumn

	floors, errors [largestSteps]float64 // by candidate: what it loses at least, and in fact

	first, last [scaleTileCols]uint8 // codes within bounds for the candidate at hand
	code        [scaleTileCols]uint8 // the codes that are tried
	scale, inv  perColumn            // theirs
	trial       perColumn            // their errors
	least       perColumn            // the smallest so far
}

// measure turns to columns of w, in rows of stride.
func (t *scaleTile) measure(w []float32, stride, cols int, importance []float32, bits int) {
	t.w, t.stride, t.cols, t.importance, t.bits = w, stride, cols, importance, bits
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

// start begins with the smallest of some candidates.
func (t *scaleTile) start() {
	for c := range t.first {
		t.first[c], t.last[c] = 15, 15
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
		grid.Errors(t.trial[:t.cols], t.w, t.stride, t.importance)
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
		if !promising && int(t.last[c])-step >= int(t.first[c]) {
			over := max(t.peak[c]-t.reach[c]*scale, 0)
			promising = !(leastShare*t.weight[c]*over*over > t.least[c])
		}
	}
	return promising
}
