// Package sampling chooses tokens: which ones are kept, and which of those it is. It is
// the definition that devices follow (device.Sample).
package sampling

import "math"

// Settings say how a token is chosen. The zero value takes the most likely one.
//
// With a temperature it goes in this order: penalties on logits, temperature, then
// the filters top-k, top-p (nucleus sampling, Holtzman et al. 2020), min-p and
// typical (locally typical sampling, Meister et al. 2023), each on what the one
// before it has left. Tokens as likely as the last one that a filter keeps are kept,
// too; no filter leaves nothing.
type Settings struct {
	Temperature float32 // 0 is greedy
	TopK        float32 // the most likely tokens; 0 keeps all
	TopP        float32 // the most likely tokens up to this share of probability; 0 or 1 keeps all
	MinP        float32 // tokens at least this times as likely as the most likely one; 0 keeps all
	Typical     float32 // tokens of nearly average surprise up to this share; 0 or 1 keeps all
	Repetition  float32 // divides positive and multiplies negative logits of seen tokens (Keskar et al. 2019); 0 or 1 is none
	Frequency   float32 // subtracted for every time a token was seen
	Presence    float32 // subtracted once if a token was seen
}

// Columns are the fields of Settings, as device.Sampling has them.
const Columns = 8

// Of returns the settings of a row.
func Of(row []float32) Settings {
	return Settings{row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]}
}

// Row is the settings as a row.
func (s Settings) Row() []float32 {
	return []float32{s.Temperature, s.TopK, s.TopP, s.MinP, s.Typical, s.Repetition, s.Frequency, s.Presence}
}

// Selects reports whether there is a filter that counts tokens or shares.
func (s Settings) Selects() bool {
	return s.TopK > 0 || s.TopP > 0 && s.TopP < 1 || s.Typical > 0 && s.Typical < 1
}

// Choose returns the token chosen by logits at a position of a text, and -1; or 0,
// and the first token whose logit is not finite. seen says how often each token was
// seen; it may be nil.
//
// Among the tokens kept, that one is chosen whose (logit - largest)/temperature -
// ln(-ln(1 - u)) is largest, with a random number u for every token, position and
// seed: the Gumbel-max trick (Gumbel 1954), which draws by probability.
func (s Settings) Choose(logits []float32, seen []int32, seed uint64, position int32) (token, bad int32) {
	v := make([]float32, len(logits))
	best := 0
	for i, x := range logits {
		if x-x != 0 {
			return 0, int32(i)
		}
		v[i] = s.penalized(x, seen, i)
		if v[i] > v[best] {
			best = i
		}
	}
	if s.Temperature == 0 {
		return int32(best), -1
	}
	top, rate := v[best], 1/s.Temperature
	for i, x := range v { // how far below the largest
		v[i] = (top - x) * rate
	}
	return s.filter(v).gumbel(v, seed, position), -1
}

// penalized returns a logit, lowered if its token was seen.
func (s Settings) penalized(x float32, seen []int32, i int) float32 {
	if seen == nil || seen[i] == 0 {
		return x
	}
	if r := s.Repetition; r != 0 && x > 0 {
		x /= r
	} else if r != 0 {
		x *= r
	}
	paid := float32(seen[i]) * s.Frequency
	return x - paid - s.Presence
}

// kept is what filters keep: depths up to limit, and within width of centre.
type kept struct{ limit, centre, width float32 }

// filter applies the filters to depths, how far below the largest logits are in units
// of the temperature.
func (s Settings) filter(depth []float32) kept {
	inf := float32(math.Inf(1))
	k := kept{inf, 0, inf}
	if s.TopK > 0 && s.TopK < float32(len(depth)) {
		k.limit = smallest(depth, nil, uint64(s.TopK))
	}
	if s.TopP > 0 && s.TopP < 1 {
		k.limit = k.reaching(depth, depth, s.TopP)
	}
	if s.MinP > 0 {
		k.limit = min(k.limit, float32(-math.Log(float64(s.MinP))))
	}
	if s.Typical > 0 && s.Typical < 1 {
		k.centre = k.mean(depth)
		away := make([]float32, len(depth))
		for i, x := range depth {
			away[i] = abs(x - k.centre)
		}
		k.width = k.reaching(away, depth, s.Typical)
	}
	return k
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// Probabilities, relative to that of the most likely token, are counted in units of
// 2^-31, so that sums do not depend on their order.
const one = 1 << 31

func (k kept) weigh(depth float32) uint64 {
	if depth > k.limit {
		return 0
	}
	return uint64(float32(math.Exp(-float64(depth))) * one)
}

// reaching returns the smallest of some numbers with which and those below it tokens
// have the share p of the probability of those kept.
func (k kept) reaching(x, depth []float32, p float32) float32 {
	weights, all := make([]uint64, len(depth)), uint64(0)
	for i, d := range depth {
		weights[i] = k.weigh(d)
		all += weights[i]
	}
	return smallest(x, weights, uint64(math.Ceil(float64(p)*float64(all))))
}

// mean returns the average depth of tokens kept, weighed by probability: from that of
// the average surprise it differs by a constant.
func (k kept) mean(depth []float32) float32 {
	const steps = 1 << 12
	var sum, all uint64
	for _, x := range depth {
		if w := k.weigh(x) >> 8; w > 0 {
			sum, all = sum+w*uint64(x*steps), all+w
		}
	}
	return float32(float64(sum) / float64(all) / steps)
}

// smallest returns the smallest of some numbers, none of them negative, with which
// and those below it weights, of 1 if there are none, add up to what is needed.
func smallest(x []float32, weights []uint64, need uint64) float32 {
	lo, hi := uint32(0), math.Float32bits(float32(math.Inf(1)))
	for lo < hi {
		mid, sum := lo+(hi-lo)/2, uint64(0)
		for i, v := range x {
			switch {
			case math.Float32bits(v) > mid:
			case weights == nil:
				sum++
			default:
				sum += weights[i]
			}
		}
		if sum >= need {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return math.Float32frombits(lo)
}

// gumbel draws one of the tokens kept.
func (k kept) gumbel(depth []float32, seed uint64, position int32) int32 {
	row := rowKey(seed, position)
	best, at := float32(math.Inf(-1)), int32(-1)
	for i, x := range depth {
		if !(x <= k.limit && abs(x-k.centre) <= k.width) {
			continue
		}
		score := -x - logExponential(row, int32(i))
		if at < 0 || score > best {
			best, at = score, int32(i)
		}
	}
	return max(at, 0)
}

const golden = 0x9E3779B97F4A7C15

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func rowKey(seed uint64, position int32) uint64 { return mix(seed + golden*uint64(position+1)) }

// logExponential returns the logarithm of an exponentially distributed number.
func logExponential(row uint64, token int32) float32 {
	u := (float64(mix(row+golden*uint64(token+1))>>32) + 0.5) / (1 << 32)
	return float32(math.Log(-math.Log1p(-u)))
}
