package infer

import (
	"fmt"
	"math"
	"math/rand/v2"

	"exl2/internal/score"
)

// A Sampler chooses tokens. The zero Sampler is greedy: it takes the most
// likely token.
//
// With a temperature it works in this order, which is ExLlamaV2's: penalties on
// logits, temperature, then the filters top-k, top-p, min-p and typical, each
// on what the one before it has left, and a draw among the rest.
type Sampler struct {
	Temperature float64 // 0 is greedy
	TopK        int     // 0 keeps all
	TopP        float64 // 0 or 1 keeps all
	MinP        float64 // 0 keeps all
	Typical     float64 // 0 or 1 keeps all

	Repetition float64 // divides positive and multiplies negative logits of seen tokens (Keskar et al. 2019); 0 or 1 is none
	Frequency  float64 // subtracted for every time a token was seen
	Presence   float64 // subtracted once if a token was seen
}

// Check reports the first setting that cannot be.
func (s Sampler) Check() error {
	for _, v := range []struct {
		name   string
		x      float64
		lo, hi float64
	}{
		{"temperature", s.Temperature, 0, 1000}, {"top-p", s.TopP, 0, 1}, {"min-p", s.MinP, 0, 1}, {"typical", s.Typical, 0, 1},
		{"repetition penalty", s.Repetition, 0, 1000}, {"frequency penalty", s.Frequency, -1000, 1000}, {"presence penalty", s.Presence, -1000, 1000},
		{"top-k", float64(s.TopK), 0, math.MaxInt32},
	} {
		if !(v.x >= v.lo && v.x <= v.hi) {
			return fmt.Errorf("%s: %v, want %v to %v", v.name, v.x, v.lo, v.hi)
		}
	}
	return nil
}

// Sample chooses a token given the logits, which it may change, and the tokens
// seen so far.
func (s Sampler) Sample(logits []float32, seen []int32, r *rand.Rand) int32 {
	s.penalize(logits, seen)
	if s.Temperature == 0 {
		return int32(score.ArgMax(logits))
	}
	list := distribution(logits, s.Temperature)
	if len(list) == 0 {
		return int32(score.ArgMax(logits))
	}
	list = topK(list, s.TopK)
	list = topP(list, s.TopP)
	list = minP(list, s.MinP)
	list = typical(list, s.Typical)
	return draw(list, r.Float64())
}

// penalize lowers the logits of tokens seen before.
func (s Sampler) penalize(logits []float32, seen []int32) {
	repetition := s.Repetition
	if repetition == 0 {
		repetition = 1
	}
	if repetition == 1 && s.Frequency == 0 && s.Presence == 0 {
		return
	}
	count := map[int32]int{}
	for _, t := range seen {
		count[t]++
	}
	for t, n := range count {
		v := float64(logits[t])
		if v > 0 {
			v /= repetition
		} else {
			v *= repetition
		}
		logits[t] = float32(v - float64(n)*s.Frequency - s.Presence)
	}
}

// draw takes the candidate at the share u, from 0 to 1, of the probability.
func draw(list []candidate, u float64) int32 {
	at := u * total(list)
	for _, c := range list {
		if at -= c.p; at < 0 {
			return c.token
		}
	}
	return list[len(list)-1].token
}
