package infer

import (
	"fmt"
	"math"

	"exl2/internal/sampling"
)

// A Sampler chooses tokens. The zero Sampler is greedy: it takes the most
// likely token.
//
// With a temperature it works in this order, which is ExLlamaV2's: penalties on
// logits, temperature, then the filters top-k, top-p, min-p and typical, each
// on what the one before it has left, and a draw among the rest. Tokens as likely
// as the last one that a filter keeps are kept, too.
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
			return fmt.Errorf("%s: %v, want %v to %.10g", v.name, v.x, v.lo, v.hi)
		}
	}
	return nil
}

// Sample chooses a token given finite logits, the tokens before and the position of
// the last of them. It is what an [Engine] does on its device: the same seed gives
// the same token, up to the last bits of logarithms.
func (s Sampler) Sample(logits []float32, seen []int32, seed uint64, position int) int32 {
	token, _ := s.settings().Choose(logits, counts(seen, len(logits)), seed, int32(position))
	return token
}

// settings returns what devices take.
func (s Sampler) settings() sampling.Settings {
	out := sampling.Settings{
		Temperature: float32(s.Temperature), TopK: float32(s.TopK), TopP: single(s.TopP), MinP: single(s.MinP), Typical: single(s.Typical),
		Repetition: single(s.Repetition), Frequency: float32(s.Frequency), Presence: float32(s.Presence),
	}
	if s.Temperature < least {
		out.Temperature = 0
	}
	return out
}

// least is a number whose inverse float32 can hold.
const least = 1e-30

// single returns a number as float32, in which no other one is 0, as that means something else.
func single(v float64) float32 {
	if v > 0 {
		v = max(v, least)
	}
	return float32(v)
}

// penalizes reports whether tokens seen before are less likely, or more.
func (s Sampler) penalizes() bool {
	return s.Repetition != 0 && s.Repetition != 1 || s.Frequency != 0 || s.Presence != 0
}
