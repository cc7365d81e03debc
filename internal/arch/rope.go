package arch

import "math"

// Rope describes rotary position embeddings (Su et al. 2021).
type Rope struct {
	Theta       float64
	Dims        int  // leading dimensions of a head that rotate; 0 is no rotation
	Turning     int  // of the Dims/2 pairs, the first ones that turn, the others standing still; 0 means all
	Backward    bool // by negative angles (nanochat)
	Interleaved bool // pairs (0,1),(2,3)… rather than (0,n/2),(1,n/2+1)…
	Scaling     Scaling
	Divisor     float64 // of positions, on top of a scaling that is not linear; 0 is 1
}

// ScalingKind tells apart the ways to scale rotary embeddings.
type ScalingKind uint8

// The kinds, by their rope_type in config.json: default, linear, llama3, yarn,
// dynamic, longrope.
const (
	Unscaled ScalingKind = iota
	Linear
	Llama3
	Yarn
	Dynamic
	LongRope
)

// Scaling scales rotary embeddings to longer contexts.
type Scaling struct {
	Kind      ScalingKind
	Factor    float64
	Low, High float64 // llama3: low_freq_factor, high_freq_factor; yarn: beta_slow, beta_fast
	Original  int     // context before scaling
	Attention float64 // yarn: factor on the rotated dimensions
	Truncate  bool    // yarn: whole-numbered ramp borders

	// longrope: what divides each frequency, Dims/2 of them, and the factor on
	// rotated dimensions, within the original context and beyond it.
	Short, Long           []float64
	ShortScale, LongScale float64
}

// Scaled returns r with the user's own scaling: a factor that divides positions (-rs), in place of a linear one
// that the model has, as ExLlamaV2 takes it, and on top of any other; and an NTK alpha on the base (-ra). 1 leaves r as it is.
func (r Rope) Scaled(linear, alpha float64) Rope {
	if alpha != 1 && r.Dims > 2 {
		r.Theta *= math.Pow(alpha, float64(r.Dims)/float64(r.Dims-2))
	}
	switch {
	case linear == 1:
	case r.Scaling.Kind == Linear:
		r.Scaling.Factor = linear
	default:
		r.Divisor = linear
	}
	return r
}

// For returns r as it is in a context of the given length, on which the dynamic
// and longrope kinds depend. Frequencies alone takes a length within the
// original context. All positions of a sequence must rotate by the same, so the
// length is that of the room for the sequence, not of what is in it so far.
func (r Rope) For(length int) Rope {
	s := r.Scaling
	if length <= s.Original || r.Dims <= 2 {
		return r
	}
	switch s.Kind {
	case Dynamic: // NTK scaling by length (transformers modeling_rope_utils.py, "dynamic")
		grown := s.Factor*float64(length)/float64(s.Original) - (s.Factor - 1)
		r.Theta *= math.Pow(grown, float64(r.Dims)/float64(r.Dims-2))
		r.Scaling = Scaling{}
	case LongRope:
		r.Scaling.Short, r.Scaling.ShortScale = s.Long, s.LongScale
	}
	return r
}

// Frequencies returns the angle by which each pair of dimensions rotates from
// one position to the next, Dims/2 of them, and the factor on rotated
// dimensions.
func (r Rope) Frequencies() (freqs []float32, scale float32) {
	f := make([]float64, r.Dims/2)
	for i := range f {
		f[i] = math.Pow(r.Theta, -2*float64(i)/float64(r.Dims))
	}
	if r.Turning > 0 {
		clear(f[r.Turning:])
	}
	scale = 1
	switch s := r.Scaling; s.Kind {
	case LongRope:
		for i := range f {
			f[i] /= s.Short[i]
		}
		scale = float32(s.ShortScale)
	case Linear:
		for i := range f {
			f[i] /= s.Factor
		}
	case Llama3:
		s.llama3(f)
	case Yarn:
		s.yarn(f, r)
		scale = float32(s.Attention)
	}
	freqs = make([]float32, len(f))
	for i := range f {
		freqs[i] = float32(f[i] / orElse(r.Divisor, 1))
		if r.Backward {
			freqs[i] = -freqs[i]
		}
	}
	return freqs, scale
}

// llama3 divides slow frequencies by the factor, keeps fast ones and blends
// between (transformers modeling_rope_utils.py, "llama3").
func (s Scaling) llama3(f []float64) {
	for i, w := range f {
		turns := float64(s.Original) * w / (2 * math.Pi) // over the original context
		keep := min(max((turns-s.Low)/(s.High-s.Low), 0), 1)
		if s.High == s.Low { // a step
			keep = 0
			if turns > s.Low {
				keep = 1
			}
		}
		f[i] = keep*w + (1-keep)*w/s.Factor
	}
}

// yarn divides by the factor the frequencies that make fewer than Low turns
// over the original context, keeps those that make more than High, and blends
// linearly in the dimension between (Peng et al. 2023, section 3.2).
func (s Scaling) yarn(f []float64, r Rope) {
	border := func(turns float64) float64 {
		return float64(r.Dims) * math.Log(float64(s.Original)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	lo, hi := border(s.High), border(s.Low)
	if s.Truncate {
		lo, hi = math.Floor(lo), math.Ceil(hi)
	}
	lo, hi = max(lo, 0), min(hi, float64(r.Dims-1))
	if lo == hi {
		hi += 0.001 // no division by zero; as in transformers
	}
	for i, w := range f {
		slow := min(max((float64(i)-lo)/(hi-lo), 0), 1)
		f[i] = slow*w/s.Factor + (1-slow)*w
	}
}
