package infer

import (
	"math"
	"testing"
)

// What a public caller chooses with logits is what an engine chooses.
func TestSampleIsWhatEnginesDo(t *testing.T) {
	for _, s := range []Sampler{{}, {Temperature: 2}, {Temperature: 1.5, TopK: 20, TopP: 0.9, MinP: 0.01, Typical: 0.9, Repetition: 1.2, Frequency: 0.1, Presence: 0.1}} {
		r, _ := generate(t, &Generation{Limit: 12, Sampler: s, Seed: 3})
		e := openEngine(t, golden("arch/llama"), Options{Positions: 64, Chunk: 64}, 1)
		ids := someIDs(6, 100)
		for i, id := range r.Tokens {
			rows := whole(t, e, ids)
			if got := s.Sample(rows[len(rows)-1], ids, 3, len(ids)-1); got != id {
				t.Fatalf("%+v: token %d is %d, want %d", s, i, got, id)
			}
			ids = append(ids, id)
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

// A setting that is too small for float32 is not off.
func TestTinySettings(t *testing.T) {
	logits := []float32{1, 3, 2.9, 2.8}
	for seed := range uint64(20) {
		for _, s := range []Sampler{{Temperature: 1, TopP: 1e-300}, {Temperature: 1, TopP: 1e-46}} {
			if got := s.Sample(logits, nil, seed, 0); got != 1 {
				t.Fatalf("%+v: token %d", s, got)
			}
		}
	}
	if got := (Sampler{Repetition: 1e-300}).settings().Repetition; got <= 0 {
		t.Errorf("repetition penalty %v", got)
	}
}
