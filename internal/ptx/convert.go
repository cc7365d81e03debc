package ptx

import (
	"math"
	"slices"
)

// convert returns a conversion.
func convert(mods []string, to, from numeric) function1 {
	whole, saturate := wholeBy(mods), slices.Contains(mods, "sat")
	switch {
	case from.letter == 'f' && to.letter == 'f':
		return func(a uint64) uint64 {
			v := whole(from.float(a))
			if saturate {
				if v = math.Min(math.Max(v, 0), 1); math.IsNaN(v) {
					v = 0
				}
			}
			return to.bitsOf(v)
		}
	case from.letter == 'f':
		return func(a uint64) uint64 { return to.nearest(whole(from.float(a))) }
	case to.letter == 'f' && from.letter == 's':
		return func(a uint64) uint64 {
			if to.bits == 32 { // not by way of float64, which rounds once more
				return uint64(math.Float32bits(float32(from.signed(a))))
			}
			return to.bitsOf(float64(from.signed(a)))
		}
	case to.letter == 'f':
		return func(a uint64) uint64 {
			if to.bits == 32 {
				return uint64(math.Float32bits(float32(from.cut(a))))
			}
			return to.bitsOf(float64(from.cut(a)))
		}
	case from.letter == 's':
		return func(a uint64) uint64 { return to.cut(uint64(from.signed(a))) }
	}
	return func(a uint64) uint64 { return to.cut(from.cut(a)) }
}

// wholeBy returns what rounds to an integer in the way that modifiers say, if they do.
func wholeBy(mods []string) func(v float64) float64 {
	for way, f := range map[string]func(float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil} {
		if slices.Contains(mods, way) {
			return f
		}
	}
	return func(v float64) float64 { return v }
}

// nearest returns the integer of the type that is nearest to one that may be too large for it; 0 for what is no number.
func (t numeric) nearest(v float64) uint64 {
	low, high := uint64(0), t.cut(math.MaxUint64)
	least, most := 0.0, math.Ldexp(1, t.bits)-1
	if t.letter == 's' {
		low, high = 1<<(t.bits-1), 1<<(t.bits-1)-1
		least, most = -math.Ldexp(1, t.bits-1), math.Ldexp(1, t.bits-1)-1
	}
	switch {
	case math.IsNaN(v):
		return 0
	case v <= least:
		return low
	case v >= most:
		return high
	case t.letter == 's':
		return t.cut(uint64(int64(v)))
	}
	return uint64(v)
}
