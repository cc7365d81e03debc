package score

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

var logits = rapid.SliceOfN(rapid.Float32Range(-30, 30), 2, 50)

// naive computes probabilities in the plainest way.
func naive(x []float32) []float64 {
	p, sum := make([]float64, len(x)), 0.0
	for i, v := range x {
		p[i] = math.Exp(float64(v))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func TestAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := logits.Draw(t, "reference")
		q := rapid.SliceOfN(rapid.Float32Range(-30, 30), len(r), len(r)).Draw(t, "q")
		token := rapid.Int32Range(0, int32(len(r)-1)).Draw(t, "token")
		pr, pq := naive(r), naive(q)
		if got, want := NewRow(r).LogLikelihood(token), math.Log(pr[token]); math.Abs(got-want) > 1e-9 {
			t.Fatalf("log-likelihood %v, want %v", got, want)
		}
		want := 0.0
		for i := range pr {
			want += pr[i] * math.Log(pr[i]/pq[i])
		}
		if got := Divergence(NewRow(r), NewRow(q)); math.Abs(got-want) > 1e-9 {
			t.Fatalf("divergence %v, want %v", got, want)
		}
	})
}

// A row is at no distance from itself, or from itself shifted.
func TestDivergenceIgnoresShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := logits.Draw(t, "reference")
		shift := float32(rapid.IntRange(-64, 64).Draw(t, "shift"))
		q := make([]float32, len(r))
		for i := range q {
			q[i] = r[i] + shift
		}
		if got := Divergence(NewRow(r), NewRow(q)); got > 1e-5 {
			t.Fatalf("divergence %v", got)
		}
	})
}

func TestDamagedLogitsShow(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, row := range map[string][]float32{"infinite": {0, inf}, "all minus infinite": {-inf, -inf}} {
		if got := NewRow(row).LogLikelihood(0); !math.IsNaN(got) {
			t.Errorf("%s: %v, want NaN", name, got)
		}
	}
	if got := NewRow([]float32{nan, 1}).LogLikelihood(1); !math.IsNaN(got) {
		t.Errorf("NaN: %v, want NaN", got)
	}
}

func TestComparison(t *testing.T) {
	var c Comparison
	for i := range 101 {
		c.Add(float64(100-i), i%4 == 0)
	}
	want := Distribution{Mean: 50, Median: 50, P90: 90, P99: 99, Max: 100}
	if got := c.KL(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := c.Agreement(), 26.0/101; got != want {
		t.Errorf("agreement %v, want %v", got, want)
	}
}

func TestPerplexityOfUniform(t *testing.T) {
	var l Likelihood
	for i := range 7 {
		l.Add(NewRow(make([]float32, 10)).LogLikelihood(int32(i)))
	}
	if got := l.Perplexity(); math.Abs(got-10) > 1e-9 || l.Tokens() != 7 {
		t.Errorf("perplexity %v over %d tokens, want 10 over 7", got, l.Tokens())
	}
}
