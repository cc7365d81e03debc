// Package fold finds channels to be scaled (model.Fold) so that a model loses less when
// it is quantized.
//
// Rows of a matrix share scales by groups, so one with a few large rows among small ones
// has scales too large for most. [Uneven] finds such rows, which are columns in the file,
// and powers of two that make them alike; what they read is divided by them. A [Prober]
// then quantizes both ways and keeps what pays.
package fold

import (
	"fmt"
	"math"
	"slices"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/tensor"
)

const (
	// least is by how many octaves a channel has to differ from the median for its place
	// to be looked at. Models that were trained without outliers have 0.65 at most.
	least = 1.0
	// most is the largest exponent.
	most = 12
	// tile is how many outputs of a matrix are looked at at a time.
	tile = 4096
)

// Uneven returns exponents for the places of a module of which a channel differs much
// from the others, by the root mean squares of the matrices' rows; none without such
// places. Norms' weights stay normal numbers of fp16.
func Uneven(d device.Quantize, l *model.Loader, m *model.Module) (model.Folding, error) {
	f, linears := model.Folding{}, map[string]*model.Linear{}
	for _, x := range m.AllLinears() {
		linears[x.Name] = x
	}
	for _, place := range m.Folds(l.Spec) {
		octaves, err := channels(d, place, linears)
		if err != nil {
			return nil, err
		}
		e := exponents(octaves)
		if e == nil {
			continue
		}
		if place.Norm {
			if err := keepNormal(l, place, e); err != nil {
				return nil, err
			}
		}
		f[place.Name] = e
	}
	return f, nil
}

// channels returns the logarithm to base 2 of the root mean square of every channel of a place over
// the matrices that read it, each relative to its own; NaN where it is zero.
func channels(d device.Quantize, place model.Fold, linears map[string]*model.Linear) ([]float64, error) {
	sums := make([]float64, place.Channels)
	for _, read := range place.Reads {
		l := linears[read.Name]
		if l == nil {
			continue // a router, which is not quantized
		}
		squares, err := rows(d, l.W.(model.Dense).Tensor)
		if err != nil {
			return nil, err
		}
		total := 0.0
		for _, v := range squares {
			total += v
		}
		for i, v := range squares {
			if total > 0 {
				sums[place.Channel(i)] += v / total
			}
		}
	}
	for i, v := range sums {
		if sums[i] = math.Log2(v) / 2; v == 0 {
			sums[i] = math.NaN()
		}
	}
	return sums, nil
}

// rows returns the sums of the squares of the inputs' weights of w, [out, in].
func rows(d device.Quantize, w tensor.Tensor) ([]float64, error) {
	parts := (w.Rows + tile - 1) / tile
	s := quant.NewScalars(d, parts*w.Cols)
	defer s.Free()
	t := d.Alloc(tensor.F32, w.Cols, exl2.Pad(min(tile, w.Rows)))
	defer d.Free(t)
	for lo := 0; lo < w.Rows; lo += tile {
		d.TakeT(t, w.Slice(lo, min(lo+tile, w.Rows)), tensor.Tensor{})
		d.Dot(s.Take(w.Cols), t, t)
	}
	if err := s.Fetch(); err != nil {
		return nil, err
	}
	sums := make([]float64, w.Cols)
	for i, v := range s.All() {
		sums[i%w.Cols] += v
	}
	return sums, nil
}

// exponents returns the powers of two that bring all channels near the median, or nil if none
// is far from it.
func exponents(octaves []float64) []int8 {
	known := slices.DeleteFunc(slices.Clone(octaves), math.IsNaN)
	if len(known) == 0 {
		return nil
	}
	slices.Sort(known)
	middle := median(known)
	if max(known[len(known)-1]-middle, middle-known[0]) < least {
		return nil
	}
	e := make([]int8, len(octaves))
	for i, v := range octaves {
		if !math.IsNaN(v) {
			e[i] = int8(max(-most, min(most, math.Round(middle-v))))
		}
	}
	return e
}

// keepNormal lessens exponents that would make a norm's weights too small for fp16's
// normal numbers, or too large.
func keepNormal(l *model.Loader, place model.Fold, e []int8) error {
	for _, end := range []string{".weight", ".bias"} {
		if !l.Files.Has(place.Name + end) {
			continue
		}
		t, err := l.Files.Get(place.Name + end)
		if err != nil {
			return err
		}
		kind, ok := map[string]tensor.Type{"F16": tensor.F16, "BF16": tensor.BF16, "F32": tensor.F32}[t.DType]
		if !ok {
			return fmt.Errorf("%s: type %s, want F16, BF16 or F32", t.Name, t.DType)
		}
		for i, v := range tensor.Widen(kind, t.Data)[:len(e)] {
			if _, exponent := math.Frexp(math.Abs(float64(v))); v != 0 {
				lo, hi := min(0, exponent-15), max(0, exponent+13)
				e[i] = int8(max(lo, min(hi, int(e[i]))))
			}
		}
	}
	return nil
}

// median returns the middle of a list, the higher one of two.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
