package arch

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"exl2/internal/device"
)

// ErrUnsupported is in the chain of every error about a model that this
// program does not know how to run.
var ErrUnsupported = fmt.Errorf("unsupported")

// ReadSpec returns the Spec of the model in a folder.
func ReadSpec(dir string) (Spec, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return Spec{}, err
	}
	return For(c)
}

// For returns the Spec of the model that c configures. It refuses, by name,
// an architecture or a value that it does not know.
func For(c *Config) (Spec, error) {
	name, e := c.entry()
	if c.Err() != nil {
		return Spec{}, c.Err()
	}
	s := e.build(c)
	s.Arch = name
	s.Further = c.language().count("num_nextn_predict_layers", 0)
	s.Warnings = append(c.leftovers(), c.otherType(name, e)...)
	if c.Err() == nil {
		s.check(c)
	}
	if c.Err() != nil {
		return Spec{}, c.ofType(name, e)
	}
	s.divideStream()
	return s, nil
}

// divideStream has the stream be what it would be divided by Residual, so that sublayers add what they compute as it is: norms in front of
// all that reads it give the same if their epsilon is divided by the square.
func (s *Spec) divideStream() {
	r := float64(s.Residual)
	bare := s.Names.NormIn == "" || s.Names.NormMLPIn == "" || s.Names.Final == "" || s.FirstBare || s.NormSums || s.NormLast != nil // somebody reads what is not normalized, or is otherwise
	if r == 0 || r == 1 || bare || s.EmbedNorm || s.Learned > 0 || s.EmbedWidth > 0 || s.PerLayer.Size > 0 || s.Attn.QKNorm.Over != NoNorm {
		return
	}
	scale, eps := float64(cmp.Or(s.EmbedScale, 1))/r, float64(s.Norm.Eps)/(r*r)
	if float32(scale) == 0 || float32(eps) == 0 && s.Norm.Eps != 0 || math.IsInf(float64(float32(scale)), 0) || math.IsInf(float64(float32(eps)), 0) {
		return
	}
	s.EmbedScale, s.Norm.Eps, s.Residual = float32(scale), float32(eps), 0
}

// ofType returns the error of c, with its model_type if that is not the architecture's:
// fields of other names are not missing then, but unknown.
func (c *Config) ofType(name string, e entry) error {
	kind := c.String("model_type", "")
	if _, known := nameOf(kind); known || kind == "" || e.kind == "" {
		return c.Err()
	}
	return fmt.Errorf("%w; %w model_type %q: that of %s is %q", c.Err(), ErrUnsupported, kind, name, e.kind)
}

// otherType names a model_type that is another architecture's, or nobody's: programs differ in which of
// the two they go by, this one by architectures.
func (c *Config) otherType(name string, e entry) []string {
	kind := c.String("model_type", "")
	other, known := nameOf(kind)
	switch {
	case kind == "" || known && other == name || e.kind == "" || strings.EqualFold(kind, e.kind):
		return nil
	case !known:
		return []string{fmt.Sprintf("model_type (%q is not known, that of %s is %q)", kind, name, e.kind)}
	}
	return []string{fmt.Sprintf("model_type (%q is that of %s)", kind, other)}
}

// entry finds the architecture that "architectures" or, without it, model_type
// names.
func (c *Config) entry() (string, entry) {
	kind := c.String("model_type", "")
	names := c.Strings("architectures")
	name, ok := nameOf(kind)
	borrowed := len(names) == 1 && lenders[name] == names[0]
	switch {
	case len(names) > 1:
		c.fail("architectures", "want a list of one name, have %v", names)
	case len(names) == 1 && names[0] == "":
		c.fail("architectures", "an empty name; give the model's, or remove the field where model_type says it")
	case len(names) == 1 && !borrowed:
		name = names[0]
	case !ok && kind == "":
		c.fail("architectures", "missing, and model_type, too")
	case !ok:
		name = kind
	}
	e, ok := table[name]
	if !ok && c.Err() == nil {
		*c.first = fmt.Errorf("%s: %w", c.file, unknown(name, kind))
	}
	return name, e
}

// Limits on the sizes in a config: far above every model known, far below what
// would exhaust memory by the number alone.
const (
	maxLayers     = 4096
	maxExperts    = 4096
	maxAllExperts = 1 << 18
	maxSize       = 1 << 24
	maxHead       = 256 // dimensions of heads of linear attention, whose state has them squared
	maxKernel     = 16
)

// check refuses sizes that cannot be; c is where they are from.
func (s Spec) check(c *Config) {
	type size struct {
		name         string
		n, least, up int
	}
	a, l := s.Attn, s.Latent
	sizes := []size{
		{"num_hidden_layers", s.Layers, 1, maxLayers}, {"num_nextn_predict_layers", s.Further, 0, maxLayers}, {"hidden_size", s.Hidden, 1, maxSize}, {"vocab_size", s.Vocab, 1, maxSize},
		{"num_attention_heads", a.Heads, 1, maxSize}, {"num_key_value_heads", a.KVHeads, 1, maxSize},
		{"head_dim", a.HeadDim, 1, maxSize}, {"width of all heads", a.Heads * a.HeadDim, 1, maxSize},
		{"max_position_embeddings", s.MaxPositions, 1, 1 << 30},
	}
	for l := 0; s.Attention != nil && l < min(s.Layers, maxLayers); l++ {
		a, of := s.Attention(l), fmt.Sprintf(" of layer %d", l)
		sizes = append(sizes, size{"num_key_value_heads" + of, a.KVHeads, 1, maxSize}, size{"head_dim" + of, a.HeadDim, 1, maxSize}, size{"width of all heads" + of, a.Queries(), 1, maxSize})
	}
	if s.EmbedWidth != 0 {
		sizes = append(sizes, size{"word_embed_proj_dim", s.EmbedWidth, 1, maxSize})
	}
	if s.Sinusoids {
		sizes = append(sizes, size{"numbers of the table of positions", s.Learned * s.Hidden, 1, 1 << 30}, size{"hidden_size", s.Hidden, 4, maxSize})
	}
	if s.MoE.Experts == 0 || s.Dense != nil {
		sizes = append(sizes, size{"intermediate_size", s.MLP.Width, 1, maxSize})
	}
	if m := s.MoE; m.Experts != 0 {
		sizes = append(sizes, size{"num_experts", m.Experts, 1, maxExperts}, size{"experts of all layers", s.Layers * m.Experts, 1, maxAllExperts}, size{"num_experts_per_tok", m.TopK, 1, m.Experts},
			size{"moe_intermediate_size", m.Width, 1, maxSize}, size{"shared_expert_intermediate_size", m.Shared, 0, maxSize}, size{"moe_latent_size", m.Latent, 0, maxSize})
	}
	if l.KVRank != 0 {
		sizes = append(sizes, size{"kv_lora_rank", l.KVRank, 1, maxSize}, size{"q_lora_rank", l.QRank, 0, maxSize},
			size{"qk_nope_head_dim", l.Nope, 1, maxSize}, size{"qk_rope_head_dim", l.Rope, 2, maxSize}, size{"v_head_dim", l.Value, 1, maxSize})
	}
	if p := s.PerLayer; p.Size != 0 {
		sizes = append(sizes, size{"hidden_size_per_layer_input", p.Size, 1, maxSize}, size{"vocab_size_per_layer_input", p.Rows, s.Vocab, maxSize}, size{"inputs of all layers", s.Layers * p.Size, 1, maxSize})
	}
	if d := s.Delta; d != (Delta{}) {
		sizes = append(sizes, size{"linear_num_key_heads", d.KeyHeads, 1, maxSize}, size{"linear_num_value_heads", d.ValueHeads, 1, maxSize},
			size{"linear_key_head_dim", d.KeyDim, 1, maxHead}, size{"linear_value_head_dim", d.ValueDim, 1, maxHead}, size{"linear_conv_kernel_dim", d.Kernel, 1, maxKernel},
			size{"width of all heads of keys", d.Keys(), 1, maxSize}, size{"width of all heads of values", d.Values(), 1, maxSize})
	} else if s.Linear != nil {
		sizes = append(sizes, size{"conv_L_cache", s.Short.Kernel, 1, maxKernel})
	}
	for _, v := range sizes {
		if v.n < v.least || v.n > v.up {
			c.fail(c.fileName(v.name), "%d, want %d to %d", v.n, v.least, v.up)
			return
		}
	}
	s.checkFactors(c)
	s.checkShapes(c)
	s.checkWindows(c)
}

// checkWindows refuses layer_types that say of a layer's window something else than the
// architecture makes of the other fields: programs differ in which they believe.
func (s Spec) checkWindows(c *Config) {
	c = c.language()
	types, _ := c.raw["layer_types"].([]any)
	for l, kind := range types[:min(len(types), s.Layers)] {
		w := 0
		if s.Window != nil {
			w = s.Window(l)
		}
		if kind == "full_attention" && w > 0 && w < s.MaxPositions || kind == "sliding_attention" && w == 0 {
			c.Refuse("layer_types", "%v of layer %d, which by the other fields has a window of %d; correct one of them", kind, l, w)
		}
	}
}

// checkFactors refuses numbers that would make everything infinite or nothing.
func (s Spec) checkFactors(c *Config) {
	for _, v := range []struct {
		name string
		f    float32
		zero bool // may be
	}{
		{"embedding multiplier", s.EmbedScale, true}, {"residual multiplier", s.Residual, true}, {"logit scale", s.LogitScale, true},
		{"logit cap", s.LogitCap, true}, {"attention cap", s.Attn.Softcap, true}, {"clip of q, k and v", s.Attn.Clip, true},
		{"scale of scores", s.Attn.Scale, false}, {"scale of values", s.Attn.ValueScale, true}, {"scale of MLPs", s.MLP.Scale, true}, {"epsilon of norms", s.Norm.Eps, true}, {"scale of experts", s.MoE.Routing.Scale, true}, {"scale of mixtures", s.MoE.Scale, true},
		{"least step of time", s.Delta.Least, true}, {"limit of gated units", s.MLP.Clamp.Limit, true}, {"temperature of attention", s.Attn.Temperature, true},
	} {
		if f := float64(v.f); !(f >= 0) || math.IsInf(f, 1) || f == 0 && !v.zero {
			c.fail(v.name, "%v, want a positive number", v.f)
		}
	}
}

// checkShapes refuses sizes that do not fit together.
func (s Spec) checkShapes(c *Config) {
	a, r := s.Attn, s.MoE.Routing
	for l := range s.Layers {
		if a := s.AttnOf(l); a.Heads%a.KVHeads != 0 {
			c.fail(c.fileName("num_attention_heads"), "%d, want a multiple of num_key_value_heads, %d in layer %d", a.Heads, a.KVHeads, l)
			return
		}
	}
	if a.ValueDim > 0 && (a.QKNorm.Over != NoNorm || a.Clip > 0) {
		c.Refuse("v_head_dim", "norms of heads, or clipped ones, where values are narrower than keys")
	}
	if a.ValueScale != 0 && a.BiasO {
		c.Refuse("attention_value_scale", "scaled values in front of a bias")
	}
	if a.ValueDim < 0 || a.ValueDim > a.HeadDim {
		c.fail("v_head_dim", "%d, want 1 to head_dim, %d", a.ValueDim, a.HeadDim)
	}
	if d := s.Delta; d != (Delta{}) && d.ValueHeads%d.KeyHeads != 0 {
		c.fail("linear_num_value_heads", "%d, want a multiple of linear_num_key_heads, %d", d.ValueHeads, d.KeyHeads)
	}
	if d := s.Delta; d.Scales != (DeltaScales{}) && (d.BiasIn || d.BiasO) {
		c.Refuse("mamba_proj_bias", "biases of what is scaled")
	}
	if s.Beside && (s.Parallel || s.NormSums || s.LinearNorms != nil || s.Attn.BiasO && s.Attn.ValueScale != 0) {
		c.Refuse("layer_types", "linear attention beside attention, and what else this architecture has")
	}
	if r.Groups > 1 && (s.MoE.Experts%r.Groups != 0 || r.TopGroups < 1 || r.TopGroups > r.Groups || s.MoE.TopK > s.MoE.Experts/r.Groups*r.TopGroups) {
		c.fail("n_group", "%d groups of %d experts, of which %d groups and %d experts are chosen", r.Groups, s.MoE.Experts, r.TopGroups, s.MoE.TopK)
	}
	if s.NormSums && s.MoE.Experts > 0 {
		c.Refuse("num_experts", "experts where the stream is normalized behind sublayers")
	}
	if m := s.MoE; m.Early && (m.TopK != 1 || m.Shared == 0) {
		c.fail(c.fileName("num_experts_per_tok"), "%d, want 1, and an expert that all tokens see", m.TopK)
	}
	if m := s.MoE; m.Latent > 0 && (m.Apart || m.Early || m.SharedGated || s.Names.NormMLPOut != "" || s.Parallel) {
		c.Refuse("moe_latent_size", "experts of a projection of the stream beside what else this architecture has")
	}
	if r.Score == device.SparseMixer && s.MoE.TopK != 2 {
		c.fail("num_experts_per_tok", "%d, want 2", s.MoE.TopK)
	}
	if s.Rope == nil {
		return
	}
	for l := range s.Layers {
		width := s.AttnOf(l).HeadDim
		if s.Latent.KVRank > 0 {
			width = s.Latent.Rope
		}
		switch r := s.Rope(l); {
		case r.Dims%2 != 0 || r.Dims > width:
			c.fail("head_dim", "%d rotated dimensions of %d, want an even number", r.Dims, width)
		case r.Scaling.Kind == LongRope && (len(r.Scaling.Short) != r.Dims/2 || len(r.Scaling.Long) != r.Dims/2):
			c.fail("rope_scaling.long_factor", "%d and %d factors, want %d", len(r.Scaling.Short), len(r.Scaling.Long), r.Dims/2)
		}
	}
}

// fileName returns the name that the file has for a field.
func (c *Config) fileName(key string) string {
	if other, ok := c.alias[key]; ok {
		return other
	}
	return key
}
