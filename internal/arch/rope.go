package arch

import "math"

// Rope describes rotary position embeddings (Su et al. 2021).
type Rope struct {
	Theta       float64
	Dims        int  // leading dimensions of a head that turn; 0 turns rotation off
	Interleaved bool // pairs (0,1),(2,3)… rather than (0,n/2),(1,n/2+1)…
	Scaling     Scaling
}

// ScalingKind tells apart the ways to stretch rotary embeddings.
type ScalingKind uint8

// The kinds, by their rope_type in config.json: default, linear, llama3, yarn.
const (
	Unscaled ScalingKind = iota
	Linear
	Llama3
	Yarn
	Dynamic
	LongRope
)

// Scaling stretches rotary embeddings to longer contexts.
type Scaling struct {
	Kind      ScalingKind
	Factor    float64
	Low, High float64 // llama3: low_freq_factor, high_freq_factor; yarn: beta_slow, beta_fast
	Original  int     // context before stretching
	Attention float64 // yarn: factor on the turned dimensions
	Truncate  bool    // yarn: whole-numbered ramp borders
}

// rope reads rope_parameters (transformers 5) or rope_theta and rope_scaling.
func (c *Config) rope(dims int) Rope {
	p := c.Object("rope_parameters")
	theta := c.Float("rope_theta", 10000)
	if !c.Has("rope_parameters") {
		p = c.Object("rope_scaling")
	}
	r := Rope{Theta: p.Float("rope_theta", theta), Dims: dims, Scaling: p.scaling(c.Int("max_position_embeddings", 2048))}
	if !(r.Theta > 0) || math.IsInf(r.Theta, 1) {
		p.fail("rope_theta", "%v, want a positive number", r.Theta)
	}
	c.adopt(p)
	return r
}

// scaling reads the stretching part of rope parameters; positions is the
// model's context.
func (c *Config) scaling(positions int) Scaling {
	key := "rope_type"
	if !c.Has(key) && c.Has("type") {
		key = "type"
	}
	s := Scaling{Original: c.Int("original_max_position_embeddings", positions)}
	switch kind := c.String(key, "default"); kind {
	case "default":
		return Scaling{}
	case "linear":
		s.Kind, s.Factor = Linear, c.Float("factor")
	case "llama3":
		s.Kind, s.Factor = Llama3, c.Float("factor")
		s.Low, s.High = c.Float("low_freq_factor"), c.Float("high_freq_factor")
	case "yarn":
		s.Kind, s.Factor = Yarn, c.Float("factor")
		s.Low, s.High = c.Float("beta_slow", 1), c.Float("beta_fast", 32)
		s.Truncate = c.Bool("truncate", true)
		s.Attention = c.Float("attention_factor", yarnAttention(s.Factor, c.Float("mscale", 0), c.Float("mscale_all_dim", 0)))
	default:
		c.refuse(key, kind)
		return Scaling{}
	}
	c.checkScaling(s)
	return s
}

func (c *Config) checkScaling(s Scaling) {
	if !(s.Factor >= 1) || math.IsInf(s.Factor, 1) {
		c.fail("factor", "%v, want 1 or more", s.Factor)
	}
	if s.Original < 1 {
		c.fail("original_max_position_embeddings", "%d, want 1 or more", s.Original)
	}
	if s.Kind != Linear && !(s.High > s.Low && s.Low > 0) {
		c.fail("factor", "frequency bounds %v and %v, want the second larger", s.Low, s.High)
	}
	if s.Kind == Yarn && !(s.Attention > 0) {
		c.fail("attention_factor", "%v, want a positive number", s.Attention)
	}
}

// yarnAttention is the factor that yarn puts on rotated dimensions when the
// config gives none: 0.1·ln(factor)+1 (Peng et al. 2023, section 3.4), or the
// ratio of two such terms in DeepSeek's variant.
func yarnAttention(factor, mscale, mscaleAll float64) float64 {
	term := func(m float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(factor) + 1
	}
	if mscale != 0 && mscaleAll != 0 {
		return term(mscale) / term(mscaleAll)
	}
	return term(1)
}

// Stretch returns r with the user's own scaling on top: a linear factor on
// positions (-rs) and an NTK alpha on the base (-ra); 1 leaves r as it is.
func (r Rope) Stretch(linear, alpha float64) Rope {
	if alpha != 1 && r.Dims > 2 {
		r.Theta *= math.Pow(alpha, float64(r.Dims)/float64(r.Dims-2))
	}
	if linear != 1 {
		if r.Scaling.Kind == Unscaled {
			r.Scaling = Scaling{Kind: Linear, Factor: 1}
		}
		r.Scaling.Factor *= linear
	}
	return r
}

// Frequencies returns the angle by which each pair of dimensions turns from
// one position to the next, Dims/2 of them, and the factor on turned
// dimensions.
func (r Rope) Frequencies() (freqs []float32, scale float32) {
	f := make([]float64, r.Dims/2)
	for i := range f {
		f[i] = math.Pow(r.Theta, -2*float64(i)/float64(r.Dims))
	}
	scale = 1
	switch s := r.Scaling; s.Kind {
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
		freqs[i] = float32(f[i])
	}
	return freqs, scale
}

// llama3 divides slow frequencies by the factor, keeps fast ones and blends
// between (transformers modeling_rope_utils.py, "llama3").
func (s Scaling) llama3(f []float64) {
	for i, w := range f {
		turns := float64(s.Original) * w / (2 * math.Pi) // over the original context
		keep := min(max((turns-s.Low)/(s.High-s.Low), 0), 1)
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
