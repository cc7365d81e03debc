package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var inf = float32(math.Inf(1))

// logitSets draws rows with ties and infinities. Logits that differ do so by more
// than the rounding of their probabilities, so that the order of tokens is certain.
var logitSets = rapid.SliceOfN(rapid.OneOf(steps, rapid.SampledFrom([]float32{-inf, 0, 1, 1, 2})), 1, 30)

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

// kept returns which tokens a filter keeps.
func kept(n int, list []candidate) []bool {
	out := make([]bool, n)
	for _, c := range list {
		out[c.token] = true
	}
	return out
}

// above counts the tokens that come before token i: likelier, or as likely and
// of lower number.
func above(p []float64, i int) (n int, share float64) {
	for j, q := range p {
		if q > p[i] || q == p[i] && j < i {
			n, share = n+1, share+q
		}
	}
	return n, share
}

// near reports whether a comparison of sums is too close to call.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Each filter keeps the tokens that its definition names, one by one.
func TestFilters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := logitSets.Draw(t, "logits")
		temperature := rapid.Float64Range(0.2, 3).Draw(t, "temperature")
		p := softmax(logits, temperature)
		if math.IsNaN(p[0]) {
			return // minus infinity everywhere
		}
		k := rapid.IntRange(0, 12).Draw(t, "k")
		x := rapid.Float64Range(0, 1).Draw(t, "p")
		list := distribution(logits, temperature)
		topk, topp, minp := kept(len(p), topK(list, k)), kept(len(p), topP(list, x)), kept(len(p), minP(list, x))
		best := slices.Max(p)
		for i := range p {
			n, share := above(p, i)
			if want := p[i] > 0 && (k == 0 || n < k); topk[i] != want {
				t.Errorf("top-k %d: token %d kept %v, want %v", k, i, topk[i], want)
			}
			if want := p[i] > 0 && (x == 0 || share < x); topp[i] != want && !near(share, x) {
				t.Errorf("top-p %v: token %d (share before %v) kept %v", x, i, share, topp[i])
			}
			if want := p[i] > 0 && p[i] >= x*best; minp[i] != want && !near(p[i], x*best) {
				t.Errorf("min-p %v: token %d of %v kept %v, best %v", x, i, p[i], minp[i], best)
			}
		}
	})
}

// Typical keeps the least distant tokens that together reach the share.
func TestTypical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfNDistinct(rapid.Float32Range(-5, 5), 1, 20, rapid.ID[float32]).Draw(t, "logits")
		x := rapid.Float64Range(0.01, 0.99).Draw(t, "p")
		p := softmax(logits, 1)
		entropy := 0.0
		for _, v := range p {
			entropy -= v * math.Log(v)
		}
		distance := func(i int) float64 { return math.Abs(-math.Log(p[i]) - entropy) }
		got := kept(len(p), typical(distribution(logits, 1), x))
		for i := range p {
			share := 0.0 // of tokens nearer than this one
			for j := range p {
				if distance(j) < distance(i)-1e-9 {
					share += p[j]
				}
			}
			if want := share < x; got[i] != want && !near(share, x) && !tied(distance, i, len(p)) {
				t.Errorf("typical %v: token %d kept %v, share before %v", x, i, got[i], share)
			}
		}
	})
}

// tied reports whether another token is as far from the entropy.
func tied(distance func(int) float64, i, n int) bool {
	for j := range n {
		if j != i && near(distance(i), distance(j)) {
			return true
		}
	}
	return false
}

// Draws have the frequencies of the distribution.
func TestDrawFrequencies(t *testing.T) {
	logits := []float32{1, 3, -inf, 2, 3}
	p := softmax(logits, 0.8)
	count := make([]int, len(p))
	r := rand.New(rand.NewPCG(1, 1))
	const n = 200000
	for range n {
		count[Sampler{Temperature: 0.8}.Sample(slices.Clone(logits), nil, r)]++
	}
	for i := range p {
		if got := float64(count[i]) / n; math.Abs(got-p[i]) > 5*math.Sqrt(p[i]/n) {
			t.Errorf("token %d was drawn %.4f of the time, want %.4f", i, got, p[i])
		}
	}
}

// Penalties by their formulas.
func TestPenalties(t *testing.T) {
	logits := []float32{2, -2, 1, 0.5}
	s := Sampler{Repetition: 2, Frequency: 0.25, Presence: 0.125}
	s.penalize(logits, []int32{0, 1, 1, 3})
	want := []float32{2.0/2 - 0.25 - 0.125, -2*2 - 2*0.25 - 0.125, 1, 0.5/2 - 0.25 - 0.125}
	if !slices.Equal(logits, want) {
		t.Errorf("%v, want %v", logits, want)
	}
}

// Rows that a broken or capped model can produce.
func TestStrangeLogits(t *testing.T) {
	nan := float32(math.NaN())
	r := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		logits []float32
		want   int32
	}{
		"one infinite":       {[]float32{0, inf, 5}, 1},
		"all minus infinite": {[]float32{-inf, -inf}, 0},
		"NaN is never taken": {[]float32{nan, 1, nan}, 1},
		"one token":          {[]float32{-3}, 0},
	} {
		for _, s := range []Sampler{{}, {Temperature: 1}, {Temperature: 0.7, TopK: 1, TopP: 0.5, MinP: 0.5, Typical: 0.5}} {
			if got := s.Sample(slices.Clone(c.logits), nil, r); got != c.want {
				t.Errorf("%s, %+v: token %d, want %d", name, s, got, c.want)
			}
		}
	}
}

func TestSamplerCheck(t *testing.T) {
	for _, s := range []Sampler{{Temperature: -1}, {TopP: 2}, {MinP: math.NaN()}, {TopK: -1}, {Typical: -0.1}, {Repetition: math.Inf(1)}} {
		if s.Check() == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
