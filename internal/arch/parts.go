package arch

import (
	"encoding/json"
	"fmt"
	"math"

	"exl2/internal/device"
)

// The pieces that several architectures are put together from.

// called returns which layers a field calls kind, whose list has that or other for each
// layer; or, without the field, those that local selects.
func (c *Config) called(key, kind, other string, local func(layer int) bool) func(layer int) bool {
	kinds := c.eachLayer(key)
	if kinds == nil {
		return local
	}
	for _, k := range kinds {
		if k != kind && k != other {
			c.refuse(key, k)
		}
	}
	return func(l int) bool { return l < len(kinds) && kinds[l] == kind }
}

// eachLayer returns what a field lists for each layer, nil if it does not.
func (c *Config) eachLayer(key string) []string {
	list := c.Strings(key)
	if list == nil || !c.covers(key, len(list), c.Int("num_hidden_layers", len(list))) {
		return nil
	}
	return list
}

// covers reports whether a field that lists something for each of n layers has all of the model's, and fails if not.
func (c *Config) covers(key string, n, layers int) bool {
	if n < layers {
		c.fail(key, "%d layers, want %d", n, layers)
	}
	return n >= layers
}

// step returns a number of layers, of which one is otherwise: 1 or more.
func (c *Config) step(key string, def int) int {
	n := c.Int(key, def)
	if n < 1 {
		c.fail(key, "%d, want 1 or more", n)
		return 1
	}
	return n
}

// slides returns which layers have a window: those that layer_types calls
// sliding_attention, or, without layer_types, those that local selects.
func (c *Config) slides(local func(layer int) bool) func(layer int) bool {
	return c.called("layer_types", "sliding_attention", "full_attention", local)
}

// window returns the windows of layers: sliding_window on the layers that slides
// returns.
func (c *Config) window(local func(layer int) bool) func(int) int {
	return c.windowAt(c.slides(local))
}

// windowAt is window of an architecture that does not look at layer_types; they may be
// there, and say the same.
func (c *Config) windowAt(local func(layer int) bool) func(int) int {
	w := c.optional("sliding_window", 0)
	c.ignore("layer_types")
	if w != math.Trunc(w) || w > math.MaxInt32 {
		c.fail("sliding_window", "%v, want a whole number", w)
	}
	if w <= 0 {
		return nil
	}
	return func(l int) int {
		if local(l) {
			return int(w)
		}
		return 0
	}
}

func everyLayer(int) bool { return true }
func noLayer(int) bool    { return false }

// notEvery selects all layers but the last of each n.
func notEvery(n int) func(int) bool {
	return func(l int) bool { return n < 1 || (l+1)%n != 0 }
}

// headNorms normalizes queries and keys.
func (s *Spec) headNorms(over NormSpan, q, k string) {
	s.Attn.QKNorm.Over, s.Names.QNorm, s.Names.KNorm = over, q, k
}

// layerNorm makes the norms LayerNorm, with biases or without.
func (s *Spec) layerNorm(eps float64, bias bool) {
	s.Norm, s.NormBias = device.Norm{Kind: device.Layer, Eps: float32(eps)}, bias
}

// normsBehind moves the norms from in front of the sublayers to behind them.
func (s *Spec) normsBehind() {
	n := &s.Names
	n.NormIn, n.NormAttnOut, n.NormMLPIn, n.NormMLPOut = "", "post_attention_layernorm", "", "post_feedforward_layernorm"
}

// ungated makes the MLP one without a gate.
func (s *Spec) ungated(up, down string) {
	s.MLP.Ungated, s.Names.Gate, s.Names.Up, s.Names.Down = true, "", up, down
}

// biased gives all of a block's linears a bias, or none.
func (s *Spec) biased(all bool) {
	s.Attn.BiasQKV, s.Attn.BiasO, s.MLP.Bias = all, all, all
}

// experts puts a mixture of experts in the place of the MLP. The names are
// those of the router, and of the gate, up and down matrices of expert *.
func (s *Spec) experts(m MoE, router, gate, up, down string) {
	s.MoE, s.Names.Router = m, router
	s.Names.ExpertGate, s.Names.ExpertUp, s.Names.ExpertDown = gate, up, down
}

// stacked has gate and up of all experts in one tensor, and down in another, as transformers 5 holds them.
func (s *Spec) stacked() {
	n := s.Names
	s.Stored = append(s.Stored, Stored{Weight: "mlp.experts.gate_up_proj", Holds: []string{n.ExpertGate, n.ExpertUp}, Stacked: true},
		Stored{Weight: "mlp.experts.down_proj", Holds: []string{n.ExpertDown}, Stacked: true})
}

// shared adds an expert that every token sees, with the matrices
// prefix.gate_proj and so on.
func (s *Spec) shared(width int, prefix string) {
	n := &s.Names
	s.MoE.Shared, n.SharedGate, n.SharedUp, n.SharedDown = width, prefix+".gate_proj", prefix+".up_proj", prefix+".down_proj"
}

// fused adds a tensor of the source that holds several matrices, with a bias
// beside it or not.
func (s *Spec) fused(name string, order Order, bias bool, holds ...string) {
	t := Stored{Weight: name + ".weight", Holds: holds, Order: order}
	if bias {
		t.Bias = name + ".bias"
	}
	s.Stored = append(s.Stored, t)
}

// fusedQKV is fused for queries, keys and values, whose names become
// prefix.q_proj and so on, prefix being what is in front of the tensor's name.
func (s *Spec) fusedQKV(prefix, name string, order Order) {
	n := &s.Names
	n.Q, n.K, n.V = prefix+".q_proj", prefix+".k_proj", prefix+".v_proj"
	s.fused(prefix+"."+name, order, s.Attn.BiasQKV, n.Q, n.K, n.V)
}

// scaleQuery sets the factor on scores to 1/√x.
func (s *Spec) scaleQuery(x float64) { s.Attn.Scale = float32(1 / math.Sqrt(x)) }

// bound limits sequences to so many positions.
func (s *Spec) bound(positions int) {
	s.Bound, s.MaxPositions = positions, min(s.MaxPositions, positions)
}

// must refuses a field that has another value than those that are known.
func (c *Config) must(key string, known ...any) {
	v, name, _ := c.field(key)
	if v == nil {
		return
	}
	for _, k := range known {
		if fmt.Sprint(v) == fmt.Sprint(k) {
			return
		}
		n, ok := v.(json.Number)
		if f, err := n.Float64(); ok && err == nil && fmt.Sprint(f) == fmt.Sprint(k) {
			return
		}
	}
	c.refuse(name, fmt.Sprint(v))
}

// gate multiplies what o reads by gates, of the matrix of that name.
func (s *Spec) gate(of Gates, act device.Act, name string) {
	s.Attn.Gate, s.Attn.GateAct, s.Names.AttnGate = of, act, name
}

// clamp reads gpt-oss's gated unit.
func (c *Config) clamp() device.Clamp {
	limit := float32(c.factor("swiglu_limit", 7))
	return device.Clamp{Limit: limit, Up: limit, Alpha: float32(c.Float("swiglu_alpha", 1.702)), Added: 1}
}
