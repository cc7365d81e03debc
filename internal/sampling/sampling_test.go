package sampling

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var inf = float32(math.Inf(1))

// logitSets draws rows with ties. Logits that differ do so by more than the rounding
// of their probabilities, so that the order of tokens is certain.
var logitSets = rapid.SliceOfN(rapid.OneOf(steps, rapid.SampledFrom([]float32{0, 1, 1, 2})), 1, 30)

var steps = rapid.Map(rapid.IntRange(-8<<10, 8<<10), func(i int) float32 { return float32(i) / (1 << 10) })

// softmax is the definition, in token order.
func softmax(logits []float32, temperature float64) []float64 {
	p, sum := make([]float64, len(logits)), 0.0
	for i, v := range logits {
		p[i] = math.Exp(float64(v) / temperature)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// depths are how far below the largest logits are.
func depths(logits []float32, temperature float32) []float32 {
	d, top := slices.Clone(logits), slices.Max(logits)
	for i, v := range logits {
		d[i] = (top - v) * (1 / temperature)
	}
	return d
}

// keeps returns which tokens settings keep.
func (s Settings) keeps(logits []float32) []bool {
	d := depths(logits, s.Temperature)
	k, out := s.filter(d), make([]bool, len(d))
	for i, x := range d {
		out[i] = x <= k.limit && abs(x-k.centre) <= k.width
	}
	return out
}

// above counts the tokens that are likelier than token i.
func above(p []float64, logits []float32, i int) (n int, share float64) {
	for j, q := range p {
		if logits[j] > logits[i] {
			n, share = n+1, share+q
		}
	}
	return n, share
}

// near reports whether a comparison of sums is too close to call.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// Each filter keeps the tokens that its definition names, one by one.
func TestFilters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := logitSets.Draw(t, "logits")
		temperature := rapid.Float32Range(0.2, 3).Draw(t, "temperature")
		p := softmax(logits, float64(temperature))
		k := rapid.IntRange(0, 12).Draw(t, "k")
		x := rapid.Float32Range(0, 1).Draw(t, "p")
		topk := Settings{Temperature: temperature, TopK: float32(k)}.keeps(logits)
		topp := Settings{Temperature: temperature, TopP: x}.keeps(logits)
		minp := Settings{Temperature: temperature, MinP: x}.keeps(logits)
		best := slices.Max(p)
		for i := range p {
			n, share := above(p, logits, i)
			if want := k == 0 || n < k; topk[i] != want {
				t.Errorf("top-k %d: token %d kept %v, want %v", k, i, topk[i], want)
			}
			if want := x == 0 || share < float64(x); topp[i] != want && !near(share, float64(x)) {
				t.Errorf("top-p %v: token %d (share before %v) kept %v", x, i, share, topp[i])
			}
			if want := p[i] >= float64(x)*best; minp[i] != want && !near(p[i], float64(x)*best) {
				t.Errorf("min-p %v: token %d of %v kept %v, best %v", x, i, p[i], minp[i], best)
			}
		}
	})
}

// Top-p is a share of what top-k has left.
func TestFiltersFollowEachOther(t *testing.T) {
	logits := []float32{4, 3, 2, 1, 0}
	p := softmax(logits[:3], 1)
	for _, c := range []struct {
		share float64
		kept  int
	}{{p[0] - 0.01, 1}, {p[0] + 0.01, 2}, {p[0] + p[1] + 0.01, 3}} {
		s := Settings{Temperature: 1, TopK: 3, TopP: float32(c.share)}
		if got := s.keeps(logits); !slices.Equal(got, []bool{true, c.kept > 1, c.kept > 2, false, false}) {
			t.Errorf("top-p %v: %v, want %d", c.share, got, c.kept)
		}
	}
}

// Typical keeps the least distant tokens that together reach the share.
func TestTypical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfNDistinct(rapid.Float32Range(-5, 5), 1, 20, rapid.ID[float32]).Draw(t, "logits")
		x := rapid.Float32Range(0.01, 0.99).Draw(t, "p")
		p := softmax(logits, 1)
		entropy := 0.0
		for _, v := range p {
			entropy -= v * math.Log(v)
		}
		distance := func(i int) float64 { return math.Abs(-math.Log(p[i]) - entropy) }
		got := Settings{Temperature: 1, Typical: x}.keeps(logits)
		for i := range p {
			share, close := 0.0, false // of tokens nearer than this one
			for j := range p {
				if d := distance(j) - distance(i); d < -1e-3 {
					share += p[j]
				} else if j != i && d < 1e-3 {
					close = true
				}
			}
			if want := share < float64(x); got[i] != want && !close && math.Abs(share-float64(x)) > 1e-3 {
				t.Errorf("typical %v: token %d kept %v, share before %v", x, i, got[i], share)
			}
		}
	})
}

// Choices have the frequencies of the distribution, over positions and over seeds.
func TestFrequencies(t *testing.T) {
	logits := []float32{1, 3, -20, 2, 3}
	p := softmax(logits, 0.8)
	const n = 100000
	for name, choose := range map[string]func(i int) int32{
		"positions": func(i int) int32 { id, _ := Settings{Temperature: 0.8}.Choose(logits, nil, 9, int32(i)); return id },
		"seeds":     func(i int) int32 { id, _ := Settings{Temperature: 0.8}.Choose(logits, nil, uint64(i), 9); return id },
	} {
		count := make([]int, len(p))
		for i := range n {
			count[choose(i)]++
		}
		for i := range p {
			if got := float64(count[i]) / n; math.Abs(got-p[i]) > 5*math.Sqrt(p[i]/n) {
				t.Errorf("%s: token %d was drawn %.4f of the time, want %.4f", name, i, got, p[i])
			}
		}
	}
}

// Penalties by their formulas.
func TestPenalties(t *testing.T) {
	logits, seen := []float32{2, -2, 1, 0.5}, []int32{1, 2, 0, 1}
	s := Settings{Repetition: 2, Frequency: 0.25, Presence: 0.125}
	want := []float32{2.0/2 - 0.25 - 0.125, -2*2 - 2*0.25 - 0.125, 1, 0.5/2 - 0.25 - 0.125}
	for i, x := range logits {
		if got := s.penalized(x, seen, i); got != want[i] {
			t.Errorf("token %d: %v, want %v", i, got, want[i])
		}
	}
	if id, _ := s.Choose(logits, seen, 0, 0); id != 2 {
		t.Errorf("token %d, want 2", id)
	}
}

// Rows that a broken or capped model can produce.
func TestStrangeLogits(t *testing.T) {
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		logits  []float32
		id, bad int32
	}{
		"infinite":       {[]float32{0, inf, 5}, 0, 1},
		"minus infinite": {[]float32{1, -inf, -inf}, 0, 1},
		"NaN":            {[]float32{0, 1, nan}, 0, 2},
		"one token":      {[]float32{-3}, 0, -1},
		"far apart":      {[]float32{-math.MaxFloat32, math.MaxFloat32}, 1, -1},
	} {
		for _, s := range []Settings{{}, {Temperature: 1}, {Temperature: 0.7, TopK: 1, TopP: 0.5, MinP: 0.5, Typical: 0.5}, {Temperature: 1e-30}} {
			if id, bad := s.Choose(c.logits, nil, 1, 2); id != c.id || bad != c.bad {
				t.Errorf("%s, %+v: token %d and %d, want %d and %d", name, s, id, bad, c.id, c.bad)
			}
		}
	}
}

// No filter leaves nothing, and the zero settings take the first of the largest.
func TestAlwaysChooses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := logitSets.Draw(t, "logits")
		share := rapid.Float32Range(0, 1)
		s := Settings{rapid.Float32Range(1e-6, 1000).Draw(t, "temperature"), float32(rapid.IntRange(0, 12).Draw(t, "k")), share.Draw(t, "p"), share.Draw(t, "min-p"), share.Draw(t, "typical"), 0, 0, 0}
		if !slices.Contains(s.keeps(logits), true) {
			t.Errorf("%+v keeps nothing", s)
		}
		if id, _ := (Settings{}).Choose(logits, nil, 0, 0); int(id) != slices.Index(logits, slices.Max(logits)) {
			t.Errorf("greedy: token %d of %v", id, logits)
		}
	})
}
