package arch

import (
	"math"
	"strings"
)

// rope reads the RoPE of heads of the given width: rope_parameters
// (transformers 5), or rope_theta and rope_scaling.
func (c *Config) rope(dims int) Rope {
	return c.ropeOf(c.ropeObject(), dims)
}

// ropeObject returns the object with RoPE parameters, in either spelling.
func (c *Config) ropeObject() *Config {
	if !c.Has("rope_parameters") {
		return c.Object("rope_scaling")
	}
	if c.Has("rope_scaling") {
		c.fail("rope_scaling", "there are rope_parameters, too, which mean the same; remove one of them")
	}
	return c.Object("rope_parameters")
}

// ropeOf reads one set of RoPE parameters.
func (c *Config) ropeOf(p *Config, dims int) Rope {
	r := Rope{Theta: p.Float("rope_theta", c.Float("rope_theta", 10000)), Dims: dims}
	if !(r.Theta >= 1) || math.IsInf(r.Theta, 1) {
		of := c
		if p.Has("rope_theta") {
			of = p
		}
		of.fail("rope_theta", "%v, want 1 or more", r.Theta)
	}
	positions := c.Int("max_position_embeddings", 2048)
	r.Scaling = p.scaling(positions, c.Int("original_max_position_embeddings", p.Int("original_max_position_embeddings", positions)))
	if p.String("rope_type", p.String("type", "")) == "proportional" {
		r.proportional(p)
	}
	if r.Scaling.Kind == Yarn && r.Theta == 1 {
		p.fail("rope_theta", "1, want more: yarn divides by its logarithm")
	}
	if r.Scaling.Kind == Dynamic && p.Has("alpha") { // Hunyuan: of the base, at any length
		alpha := p.Float("alpha")
		if !(alpha > 0) {
			p.fail("alpha", "%v, want a positive number", alpha)
		}
		r = Rope{Theta: r.Theta, Dims: dims}.Scaled(1, alpha)
		p.ignore("beta_fast", "beta_slow", "mscale", "mscale_all_dim")
	}
	return r
}

// scaling reads the scaling part of RoPE parameters; positions is the
// model's context, original that before scaling. Object and messages are
// those of the parameters.
func (c *Config) scaling(positions, original int) Scaling {
	key := "rope_type"
	if !c.Has(key) && c.Has("type") {
		key = "type"
	}
	c.ignore("type", "rope_type", "original_max_position_embeddings")
	s := Scaling{Original: original}
	switch kind := c.String(key, "default"); kind {
	case "default":
		return Scaling{}
	case "mrope": // positions of text are the same in all three sections
		c.ignore("mrope_section")
		return Scaling{}
	case "linear":
		s.Kind, s.Factor = Linear, c.Float("factor")
	case "proportional": // of a part of the pairs, see ropeOf
		if s.Factor = c.Float("factor", 1); s.Factor == 1 {
			return Scaling{}
		}
		s.Kind = Linear
	case "dynamic":
		s.Kind, s.Factor, s.Original = Dynamic, c.Float("factor", 1), positions
	case "llama3":
		s.Kind, s.Factor = Llama3, c.Float("factor")
		s.Low, s.High = c.Float("low_freq_factor"), c.Float("high_freq_factor")
	case "yarn", "deepseek_yarn", "longrope", "su":
		if !strings.HasSuffix(kind, "yarn") || c.Has("short_factor") { // the first Phi-3 called longrope su and yarn
			s.longFields(c, positions)
		} else {
			s.yarnFields(c, positions)
		}
	default:
		c.refuse(key, kind)
		return Scaling{}
	}
	c.checkScaling(s)
	return s
}

func (s *Scaling) yarnFields(c *Config, positions int) {
	s.Kind = Yarn
	s.Factor = c.Float("factor", float64(positions)/float64(max(s.Original, 1)))
	s.Low, s.High = orElse(c.Float("beta_slow", 1), 1), orElse(c.Float("beta_fast", 32), 32)
	s.Truncate = c.Bool("truncate", true)
	mscale, all := c.Float("mscale", 0), c.Float("mscale_all_dim", 0)
	s.Attention = c.Float("attention_factor", yarnAttention(s.Factor, mscale, all))
}

// longFields reads longrope (Ding et al. 2024; transformers
// modeling_rope_utils.py, "longrope"). Without a factor of its own it scales
// by the ratio of contexts; without a factor on rotated dimensions that is
// √(1 + ln factor / ln original).
func (s *Scaling) longFields(c *Config, positions int) {
	s.Kind = LongRope
	s.Short, s.Long = c.Floats("short_factor"), c.Floats("long_factor")
	s.Factor = c.Float("factor", max(1, float64(positions)/float64(max(s.Original, 1))))
	scale := 1.0
	if s.Factor > 1 {
		scale = math.Sqrt(1 + math.Log(s.Factor)/math.Log(float64(max(s.Original, 2))))
	}
	scale = c.Float("attention_factor", scale)
	s.ShortScale, s.LongScale = c.Float("short_mscale", scale), c.Float("long_mscale", scale)
}

func (c *Config) checkScaling(s Scaling) {
	if !(s.Factor >= 1) || math.IsInf(s.Factor, 1) {
		c.fail("factor", "%v, want 1 or more", s.Factor)
	}
	if s.Original < 1 {
		c.fail("original_max_position_embeddings", "%d, want 1 or more", s.Original)
	}
	switch s.Kind {
	case Llama3, Yarn:
		if !(s.High >= s.Low) || !(s.Low > 0) { // the same: from one dimension to the next (Kimi K2, Llama 4)
			c.fail("factor", "frequency bounds %v and %v, want the second larger", s.Low, s.High)
		}
	case LongRope:
		for _, f := range append(append([]float64{s.ShortScale, s.LongScale}, s.Short...), s.Long...) {
			if !(f > 0) {
				c.fail("long_factor", "%v among the factors, want positive numbers", f)
			}
		}
	}
	if s.Kind == Yarn && !(s.Attention > 0) {
		c.fail("attention_factor", "%v, want a positive number", s.Attention)
	}
}

// yarnAttention is the factor that yarn puts on rotated dimensions when the
// config gives none: 0.1·ln(factor)+1 (Peng et al. 2023, section 3.4), or the
// ratio of two such terms in DeepSeek's variant.
func yarnAttention(factor, mscale, mscaleAll float64) float64 {
	if mscale != 0 && mscaleAll != 0 {
		return yarnTerm(factor, mscale) / yarnTerm(factor, mscaleAll)
	}
	return yarnTerm(factor, 1)
}

func yarnTerm(factor, mscale float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*mscale*math.Log(factor) + 1
}

func orElse(x, zero float64) float64 {
	if x == 0 {
		return zero
	}
	return x
}

// partial rotates only the leading fraction of each head's dimensions, which the
// file gives under one of its names.
func (s *Spec) partial(c *Config, def float64) {
	f := c.ropeObject().Float("partial_rotary_factor", c.Float("partial_rotary_factor", def))
	c.isPart(f)
	dims := int(float64(s.Attn.HeadDim) * f)
	s.eachRope(func(r Rope) Rope { r.Dims = dims; return r })
}

// isPart reports whether partial_rotary_factor is a part of a head, and fails if not.
func (c *Config) isPart(f float64) bool {
	ok := f >= 0 && f <= 1
	if !ok {
		c.fail("partial_rotary_factor", "%v, want 0 to 1", f)
	}
	return ok
}

// ropes has layers that local selects turn heads in one way, and the others in another.
func (s *Spec) ropes(local func(layer int) bool, short, long Rope) {
	s.Rope = func(l int) Rope {
		if local(l) {
			return short
		}
		return long
	}
}

// turned is how a kind of layers turns heads where a file does not say: the base, and the part of a head's dimensions.
type turned struct{ theta, part float64 }

// ropeByKind reads a RoPE for layers with a window, which local selects, and one for the others.
func (s *Spec) ropeByKind(c *Config, local func(int) bool, long, short turned) {
	p := c.ropeObject()
	of := func(kind string, def turned) Rope {
		if p.Any() && !p.Has(kind) {
			p.fail(kind, "missing")
		}
		sub := p.Object(kind)
		sub.defaults("rope_theta", def.theta)
		r := c.ropeOf(sub, s.Attn.HeadDim)
		f := sub.Float("partial_rotary_factor", def.part)
		sub.isPart(f)
		r.Dims = int(float64(r.Dims) * f)
		return r
	}
	windowed, some := Rope{}, false
	for l := range min(s.Layers, maxLayers) {
		some = some || local(l)
	}
	if some {
		windowed = of("sliding_attention", short)
	} else {
		p.ignore("sliding_attention")
	}
	full := of("full_attention", long)
	s.ropes(local, windowed, full)
}

// proportional has only the first of the pairs turn, by the frequencies that they have among all
// (transformers modeling_rope_utils.py, "proportional").
func (r *Rope) proportional(p *Config) {
	f := p.Float("partial_rotary_factor", 1)
	if !p.isPart(f) {
		return
	}
	if r.Turning = int(f*float64(r.Dims)) / 2; r.Turning == 0 {
		r.Dims = 0
	}
}

// interleaved rotates pairs of neighbours.
func (s *Spec) interleaved() {
	s.eachRope(func(r Rope) Rope { r.Interleaved = true; return r })
}

// ropeWhere leaves layers without positions where on is false.
func (s *Spec) ropeWhere(on func(layer int) bool) {
	rope := s.Rope
	s.Rope = func(layer int) Rope {
		if on(layer) {
			return rope(layer)
		}
		return Rope{}
	}
}
