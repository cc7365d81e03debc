package arch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"exl2/internal/device"
)

// base is a small configuration that every case changes.
const base = `{"architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,
"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":128,"max_position_embeddings":256,"rms_norm_eps":1e-5`

// parse returns the Spec of base with more fields.
func parse(more string) (Spec, error) {
	if more != "" {
		more = "," + more
	}
	c, err := ParseConfig("config.json", []byte(base+more+"}"))
	if err != nil {
		return Spec{}, err
	}
	return For(c)
}

func TestLlama(t *testing.T) {
	s, err := parse(`"attention_bias":true,"mlp_bias":true,"tie_word_embeddings":true,"hidden_act":"gelu_pytorch_tanh"`)
	if err != nil {
		t.Fatal(err)
	}
	if s.Attn != (Attn{Heads: 4, KVHeads: 2, HeadDim: 16, Scale: 0.25, BiasQKV: true, BiasO: true}) {
		t.Errorf("attention %+v", s.Attn)
	}
	if s.MLP != (MLP{Width: 96, Act: device.GELUTanh, Bias: true}) || !s.Tied || s.Norm.Eps != 1e-5 {
		t.Errorf("mlp %+v, tied %v, norm %+v", s.MLP, s.Tied, s.Norm)
	}
	if got := s.Names.Layer(1, s.Names.Down); got != "model.layers.1.mlp.down_proj" {
		t.Errorf("name %s", got)
	}
}

// Fields that transformers reads in another way than Llama, or not at all.
func TestFieldsOfTheirOwn(t *testing.T) {
	for more, holds := range map[string]func(s Spec) bool{
		`"architectures":["HeliumForCausalLM"],"attention_bias":true`:                                      func(s Spec) bool { return s.Attn.BiasQKV && !s.Attn.BiasO },
		`"architectures":["Gemma2ForCausalLM"],"attn_logit_softcapping":3`:                                 func(s Spec) bool { return s.Attn.Softcap == 3 },
		`"architectures":["Gemma3ForCausalLM"],"attn_logit_softcapping":3`:                                 func(s Spec) bool { return s.Attn.Softcap == 0 },
		`"architectures":["GemmaForCausalLM"],"hidden_act":"gelu"`:                                         func(s Spec) bool { return s.MLP.Act == device.GELUTanh },
		`"architectures":["GemmaForCausalLM"],"hidden_act":"gelu","hidden_activation":"gelu_pytorch_tanh"`: func(s Spec) bool { return s.MLP.Act == device.GELUTanh },
		`"architectures":["GemmaForCausalLM"],"hidden_activation":"gelu"`:                                  func(s Spec) bool { return s.MLP.Act == device.GELU },
		`"architectures":["GemmaForCausalLM"],"hidden_act":"relu"`:                                         func(s Spec) bool { return s.MLP.Act == device.ReLU },
	} {
		if s, err := parse(more); err != nil || !holds(s) {
			t.Errorf("%s: attention %+v, mlp %+v, %v", more, s.Attn, s.MLP, err)
		}
	}
}

// What absent and null fields are, where an architecture has something of its own.
func TestAbsentFields(t *testing.T) {
	const experts = `"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32`
	const deepseek = `"architectures":["DeepseekV3ForCausalLM"],` + experts
	for more, holds := range map[string]func(s Spec) bool{
		deepseek:                              func(s Spec) bool { return s.MoE.Shared == 32 },
		deepseek + `,"n_shared_experts":null`: func(s Spec) bool { return s.MoE.Shared == 0 },
		`"architectures":["DeepseekV2ForCausalLM"],` + experts:                                                    func(s Spec) bool { return s.MoE.Shared == 64 },
		`"architectures":["Glm4MoeForCausalLM"],` + experts:                                                       func(s Spec) bool { return s.MoE.Shared == 32 },
		`"architectures":["Dots1ForCausalLM"],` + experts:                                                         func(s Spec) bool { return s.MoE.Shared == 0 },
		`"architectures":["GptOssForCausalLM"],"num_local_experts":4,"num_experts_per_tok":2`:                     func(s Spec) bool { return s.Rope(0).Scaling.Kind == Yarn && s.Rope(0).Scaling.Factor == 32 },
		`"architectures":["GptOssForCausalLM"],"num_local_experts":4,"num_experts_per_tok":2,"rope_scaling":null`: func(s Spec) bool { return s.Rope(0).Scaling.Original == 4096 && !s.Rope(0).Scaling.Truncate },
		`"architectures":["GptOssForCausalLM"],"num_local_experts":4,"num_experts_per_tok":2,"rope_scaling":{}`:   func(s Spec) bool { return s.Rope(0).Scaling.Kind == Yarn },
		`"architectures":["ArceeForCausalLM"],"hidden_act":null`:                                                  func(s Spec) bool { return s.MLP.Act == device.ReLU && s.MLP.Squared },
		`"architectures":["GPTNeoXForCausalLM"],"use_parallel_residual":null`:                                     func(s Spec) bool { return !s.Parallel },
		`"architectures":["Qwen2MoeForCausalLM"],"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":32,"shared_expert_intermediate_size":0`: func(s Spec) bool {
			return s.MoE.Shared == 0 && !s.MoE.SharedGated
		},
	} {
		if s, err := parse(more); err != nil || !holds(s) {
			t.Errorf("%s: %+v, mixture %+v, %v", more, s.MLP, s.MoE, err)
		}
	}
}

func TestQwen3(t *testing.T) {
	s, err := parse(`"architectures":["Qwen3ForCausalLM"],"head_dim":32,"use_sliding_window":true,"sliding_window":16,"max_window_layers":1`)
	if err != nil {
		t.Fatal(err)
	}
	if s.Attn.HeadDim != 32 || s.Attn.BiasQKV || s.Attn.QKNorm != (QKNorm{Over: EachHead}) || s.Window(0) != 0 || s.Window(1) != 16 {
		t.Errorf("attention %+v, windows %d, %d", s.Attn, s.Window(0), s.Window(1))
	}
	if got := s.Require(); !errors.Is(got, ErrUnsupported) || !strings.Contains(got.Error(), string(HeadNorms)) {
		t.Errorf("required: %v", got)
	}
	if err := s.Require(HeadNorms); err != nil {
		t.Error(err)
	}
}

func TestGemma2(t *testing.T) {
	s, err := parse(`"architectures":["Gemma2ForCausalLM"],"query_pre_attn_scalar":64,"final_logit_softcapping":null,"sliding_window":16`)
	if err != nil {
		t.Fatal(err)
	}
	if s.Attn.Scale != 0.125 || s.Attn.Softcap != 50 || s.LogitCap != 0 || s.EmbedScale != 8 || s.Norm.Offset != 1 || !s.Tied {
		t.Errorf("%+v", s)
	}
	if s.Window(0) != 16 || s.Window(1) != 0 || s.Names.NormAttnOut != "post_attention_layernorm" || s.MLP.Act != device.GELUTanh {
		t.Errorf("windows %d, %d, names %+v", s.Window(0), s.Window(1), s.Names)
	}
}

// Fields that configurations leave out or set to null.
func TestDefaults(t *testing.T) {
	s, err := parse(`"head_dim":null,"num_key_value_heads":null`)
	if err != nil {
		t.Fatal(err)
	}
	if s.Attn.HeadDim != 16 || s.Attn.KVHeads != 4 || s.Rope(0).Theta != 10000 || s.MLP.Act != device.SiLU {
		t.Errorf("attention %+v, rope %+v, act %v", s.Attn, s.Rope(0), s.MLP.Act)
	}
}

// Fields that mean nothing are passed over, those that nothing is known of named,
// and those that change the arithmetic of other architectures pass only where
// they change nothing.
func TestLeftovers(t *testing.T) {
	s, err := parse(`"torch_dtype":"float16","pad_token_id":3,"embd_pdrop":0.1,"_name_or_path":"x","unsloth_version":"1",
		"attn_logit_softcapping":null,"sliding_window":4096,"logit_scale":1.0,"layer_types":["full_attention","full_attention"],
		"hidden_act":"silu","activation_function":"silu","layer_norm_eps":0.00001,"position_embedding_type":"rope","use_rotary_pos_emb":true,
		"color":"red","shape":{"sides":4},"off":false,"rope_scaling":{"type":"linear","factor":2,"flavor":"mint"}`)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"color", "rope_scaling.flavor", "shape"}; !slices.Equal(s.Warnings, want) {
		t.Errorf("warnings %q, want %q", s.Warnings, want)
	}
}

// A model_type of another architecture, or of none that is known, is told of: published files have both.
func TestOtherType(t *testing.T) {
	for fields, want := range map[string][]string{
		`"model_type":"llama"`:   nil,
		`"model_type":"yarn"`:    {`model_type ("yarn" is not known, that of LlamaForCausalLM is "llama")`},
		`"model_type":""`:        nil,
		`"model_type":"mistral"`: {`model_type ("mistral" is that of MistralForCausalLM)`},
		`"model_type":"exaone"`:  nil, // runs by Llama's class in transformers
		`"architectures":["LLaMAForCausalLM"],"model_type":"llama"`: nil,
	} {
		if s, err := parse(fields); err != nil || !slices.Equal(s.Warnings, want) {
			t.Errorf("%s: %q, %v, want %q", fields, s.Warnings, err, want)
		}
	}
}

// What the first versions of compressed-tensors wrote is read in the place of a quantization_config,
// and beside one nothing reads it.
func TestCompressionConfigIsRead(t *testing.T) {
	for fields, want := range map[string][]string{
		`"compression_config":{"bits":4}`:                                  nil,
		`"compression_config":{"bits":4},"quantization_config":{"bits":8}`: {"compression_config"},
	} {
		if s, err := parse(fields); err != nil || !slices.Equal(s.Warnings, want) {
			t.Errorf("%s: %v, %v, want %v", fields, s.Warnings, err, want)
		}
	}
}

// Frequencies that depend on the length of the context.
func TestContext(t *testing.T) {
	long := Scaling{Kind: LongRope, Original: 32, Short: []float64{1, 1, 1, 2}, Long: []float64{4, 4, 4, 4}, ShortScale: 1, LongScale: 1.5}
	for _, c := range []struct {
		name   string
		r      Rope
		length int
		slow   float64 // factor on the slowest frequency
		scale  float32
	}{
		{"longrope within", Rope{Theta: 1e4, Dims: 8, Scaling: long}, 32, 0.5, 1},
		{"longrope beyond", Rope{Theta: 1e4, Dims: 8, Scaling: long}, 33, 0.25, 1.5},
		{"dynamic within", Rope{Theta: 1e4, Dims: 8, Scaling: Scaling{Kind: Dynamic, Factor: 2, Original: 64}}, 64, 1, 1},
		{"dynamic beyond", Rope{Theta: 1e4, Dims: 8, Scaling: Scaling{Kind: Dynamic, Factor: 2, Original: 64}}, 128, 1. / 3, 1},
		{"plain", Rope{Theta: 1e4, Dims: 8}, 1 << 20, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, _ := Rope{Theta: 1e4, Dims: 8}.Frequencies()
			s := Spec{Rope: func(int) Rope { return c.r }}
			s.SetContext(c.length)
			f, scale := s.Rope(0).Frequencies()
			if got := float64(f[3]) / float64(plain[3]); math.Abs(got-c.slow) > 1e-5 || scale != c.scale {
				t.Errorf("factor %v, scale %v, want %v, %v", got, scale, c.slow, c.scale)
			}
		})
	}
}

// Names are those that the files have.
func TestResolve(t *testing.T) {
	s, err := parse(`"architectures":["LlavaForConditionalGeneration"],"text_config":{"model_type":"llama"}`)
	if err != nil {
		t.Fatal(err)
	}
	for embed, head := range map[string]string{
		"language_model.model.embed_tokens": "language_model.lm_head", "model.language_model.embed_tokens": "lm_head", "nowhere": "language_model.lm_head",
	} {
		r := s
		r.Resolve(func(name string) bool { return strings.HasPrefix(name, strings.TrimSuffix(embed, "embed_tokens")) })
		if r.Names.Head != head {
			t.Errorf("%s: head %s, want %s", embed, r.Names.Head, head)
		}
	}
}

// Stacked experts that may be kept either way are so as the shapes in the files say, of the
// other tensor where one is square.
func TestOrient(t *testing.T) {
	for _, c := range []struct {
		hidden, width int
		gateUp, down  []int
		transposed    bool
	}{
		{32, 48, []int{4, 32, 96}, []int{4, 48, 32}, true},
		{32, 48, []int{4, 96, 32}, []int{4, 32, 48}, false},
		{32, 16, []int{4, 32, 32}, []int{4, 16, 32}, true},
		{32, 16, []int{4, 32, 32}, []int{4, 32, 16}, false},
		{32, 32, []int{4, 32, 64}, []int{4, 32, 32}, true},
		{32, 32, []int{4, 64, 32}, []int{4, 32, 32}, false},
	} {
		s, err := parse(fmt.Sprintf(`"architectures":["Qwen3VLMoeForConditionalGeneration"],"text_config":{"hidden_size":%d,"moe_intermediate_size":%d,"mlp_only_layers":[0]}`, c.hidden, c.width))
		if err != nil {
			t.Fatal(err)
		}
		s.Orient(func(name string) []int {
			return map[string][]int{"model.language_model.layers.1.mlp.experts.gate_up_proj": c.gateUp, "model.language_model.layers.1.mlp.experts.down_proj": c.down}[name]
		})
		for _, stored := range s.Stored {
			if stored.Transposed != c.transposed {
				t.Errorf("%v and %v: %s transposed %v, want %v", c.gateUp, c.down, stored.Weight, stored.Transposed, c.transposed)
			}
		}
	}
}

// Today's and the older spelling mean the same.
func TestRopeSpellings(t *testing.T) {
	for name, pair := range map[string][2]string{
		"theta":  {`"rope_theta":5e5`, `"rope_parameters":{"rope_type":"default","rope_theta":5e5}`},
		"linear": {`"rope_scaling":{"type":"linear","factor":4}`, `"rope_parameters":{"rope_type":"linear","factor":4.0,"rope_theta":10000}`},
		"llama3": {
			`"rope_theta":1e4,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":32}`,
			`"rope_parameters":{"rope_theta":1e4,"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":32}`,
		},
		"yarn": {
			`"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":64}`,
			`"rope_parameters":{"rope_type":"yarn","rope_theta":1e4,"factor":4,"original_max_position_embeddings":64}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			old, err1 := parse(pair[0])
			now, err2 := parse(pair[1])
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(old.Rope(0), now.Rope(0)) {
				t.Errorf("%+v and %+v", old.Rope(0), now.Rope(0))
			}
		})
	}
}

// Frequencies by the formulas of the papers, at the ends of the range, where
// they are plain.
func TestFrequencies(t *testing.T) {
	plain, _ := Rope{Theta: 10000, Dims: 64}.Frequencies()
	last := len(plain) - 1
	longrope := Scaling{Kind: LongRope, Original: 2048, Short: make([]float64, 32), Long: make([]float64, 32), ShortScale: 1.2, LongScale: 1.3}
	for i := range longrope.Short {
		longrope.Short[i], longrope.Long[i] = 1, 2
	}
	longrope.Short[last], longrope.Long[last] = 4, 8
	for _, c := range []struct {
		name        string
		r           Rope
		first, slow float64 // factors on the fastest and the slowest frequency
		scale       float32
	}{
		{"linear", Rope{Theta: 10000, Dims: 64, Scaling: Scaling{Kind: Linear, Factor: 4}}, 0.25, 0.25, 1},
		{"llama3", Rope{Theta: 10000, Dims: 64, Scaling: Scaling{Kind: Llama3, Factor: 8, Low: 1, High: 4, Original: 64}}, 1, 0.125, 1},
		{"yarn", Rope{Theta: 10000, Dims: 64, Scaling: Scaling{Kind: Yarn, Factor: 4, Low: 1, High: 32, Original: 2048, Attention: 1.1, Truncate: true}}, 1, 0.25, 1.1},
		{"scaled", Rope{Theta: 10000, Dims: 64}.Scaled(2, 1), 0.5, 0.5, 1},
		{"linear, another factor", Rope{Theta: 10000, Dims: 64, Scaling: Scaling{Kind: Linear, Factor: 4}}.Scaled(2, 1), 0.5, 0.5, 1},
		{"linear, its own factor", Rope{Theta: 10000, Dims: 64, Scaling: Scaling{Kind: Linear, Factor: 4}}.Scaled(1, 1), 0.25, 0.25, 1},
		{"llama3 scaled", Rope{Theta: 10000, Dims: 64, Scaling: Scaling{Kind: Llama3, Factor: 8, Low: 1, High: 4, Original: 64}}.Scaled(2, 1), 0.5, 0.0625, 1},
		{"yarn scaled", Rope{Theta: 10000, Dims: 64, Scaling: Scaling{Kind: Yarn, Factor: 4, Low: 1, High: 32, Original: 2048, Attention: 1.1, Truncate: true}}.Scaled(2, 1), 0.5, 0.125, 1.1},
		{"dynamic scaled", Rope{Theta: 10000, Dims: 64, Scaling: Scaling{Kind: Dynamic, Factor: 4, Original: 2048}}.Scaled(2, 1), 0.5, 0.5, 1},
		{"longrope scaled", Rope{Theta: 10000, Dims: 64, Scaling: longrope}.Scaled(2, 1), 0.5, 0.125, 1.2},
		{"longrope scaled, beyond", Rope{Theta: 10000, Dims: 64, Scaling: longrope}.Scaled(2, 1).For(4096), 0.25, 0.0625, 1.3},
		{"alpha", Rope{Theta: 10000, Dims: 64}.Scaled(1, 4), 1, 0.25, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, scale := c.r.Frequencies()
			first, slow := float64(f[0])/float64(plain[0]), float64(f[last])/float64(plain[last])
			if math.Abs(first-c.first) > 1e-5 || math.Abs(slow-c.slow) > 1e-5 || scale != c.scale {
				t.Errorf("factors %v and %v, scale %v, want %v, %v, %v", first, slow, scale, c.first, c.slow, c.scale)
			}
		})
	}
}

// What is unknown or cannot be is refused by name.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		more, want  string
		unsupported bool
	}{
		"architecture":        {`"architectures":["GPT9ForCausalLM"]`, `architecture "GPT9ForCausalLM"`, true},
		"near":                {`"architectures":["Qwen3BestForCausalLM"]`, `"Qwen3BestForCausalLM"; the nearest known is Qwen3ForCausalLM (known: Afmoe`, true},
		"by type":             {`"architectures":null,"model_type":"llama5"`, `"llama5"; the nearest known is`, true},
		"foreign arithmetic":  {`"attn_logit_softcapping":50.0`, "attn_logit_softcapping: unsupported: 50.0 is not known of this architecture; if the model does not use it, remove it", true},
		"foreign activation":  {`"activation_function":"gelu"`, `activation_function: unsupported: "gelu" is not known of this architecture`, true},
		"foreign positions":   {`"position_embedding_type":"alibi"`, `position_embedding_type: unsupported: "alibi"`, true},
		"foreign norm":        {`"norm_type":"layernorm"`, `norm_type: unsupported: "layernorm"`, true},
		"foreign epsilon":     {`"layer_norm_eps":0.001`, "layer_norm_eps: unsupported: 0.001", true},
		"foreign multipliers": {`"mup_enabled":true`, "mup_enabled: unsupported: true", true},
		"no rotation":         {`"use_rotary_pos_emb":false`, "use_rotary_pos_emb: unsupported: false", true},
		"empty architecture":  {`"architectures":[""]`, "architectures: an empty name", false},
		"object as a size":    {`"hidden_size":{}`, "hidden_size: an object is not a number", false},
		"no theta":            {`"rope_theta":0`, "config.json: rope_theta: 0, want 1 or more", false},
		"norms of heads":      {`"architectures":["Qwen3ForCausalLM"],"use_qk_norm":false`, `use_qk_norm: unsupported: "false"`, true},
		"steps of time":       {`"architectures":["Mamba2ForCausalLM"],"time_step_limit":[0.0,100.0]`, `time_step_limit: unsupported: "0.0 to 100.0"`, true},
		"both ways":           {`"is_causal":false`, "is_causal: unsupported: false is not known of this architecture", true},
		"foreign RoPE":        {`"rope_scaling":{"type":"linear","factor":2,"alpha":4}`, "rope_scaling.alpha: unsupported: 4", true},
		"short window":        {`"sliding_window":64`, "sliding_window: unsupported: 64", true},
		"two spellings":       {`"rope_scaling":{"type":"linear","factor":2},"rope_parameters":{}`, "rope_scaling: there are rope_parameters, too, which mean the same; remove one of them", false},
		"two names":           {`"architectures":["GPTNeoXForCausalLM"],"rotary_pct":0.25,"partial_rotary_factor":0.5`, "rotary_pct: 0.25, and partial_rotary_factor, which means the same, is 0.5", false},
		"foreign type":        {`"architectures":["PhiForCausalLM"],"model_type":"phi-msft","num_attention_heads":null`, `num_attention_heads: missing; unsupported model_type "phi-msft": that of PhiForCausalLM is "phi"`, true},
		"long factors":        {`"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[1]}`, "long_factor: 1 and 1 factors, want 8", false},
		"layer types":         {`"architectures":["Gemma2ForCausalLM"],"layer_types":["chunked_attention","full_attention"]`, `layer_types: unsupported: "chunked_attention"`, true},
		"windows by types":    {`"architectures":["MixtralForCausalLM"],"num_local_experts":8,"num_experts_per_tok":2,"sliding_window":8,"layer_types":["sliding_attention","full_attention"]`, "layer_types: unsupported: full_attention of layer 1, which by the other fields has a window of 8", true},
		"no windows by types": {`"architectures":["SmolLM3ForCausalLM"],"sliding_window":8,"layer_types":["sliding_attention","full_attention"]`, "layer_types: unsupported: sliding_attention of layer 0, which by the other fields has a window of 0", true},
		"types, no window":    {`"architectures":["Gemma2ForCausalLM"],"sliding_window":null,"layer_types":["sliding_attention","full_attention"]`, "sliding_attention of layer 0", true},
		"few layer types":     {`"architectures":["Gemma2ForCausalLM"],"layer_types":["full_attention"]`, "layer_types: 1 layers, want 2", false},
		"experts":             {`"architectures":["MixtralForCausalLM"],"num_local_experts":2,"num_experts_per_tok":3`, "num_experts_per_tok: 3, want 1 to 2", false},
		"many experts":        {`"architectures":["MixtralForCausalLM"],"num_local_experts":65536,"num_experts_per_tok":2`, "num_experts: 65536, want 1 to 4096", false},
		"many, of all layers": {`"architectures":["MixtralForCausalLM"],"num_local_experts":4096,"num_experts_per_tok":2,"num_hidden_layers":100`, "experts of all layers: 409600, want 1 to 262144", false},
		"routing":             {`"architectures":["DeepseekV3ForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"scoring_func":"softmax"`, `scoring_func: unsupported: "softmax"`, true},
		"groups":              {`"architectures":["DeepseekV3ForCausalLM"],"n_routed_experts":9,"num_experts_per_tok":2,"moe_intermediate_size":32`, "n_group: 8 groups of 9 experts", false},
		"factor":              {`"architectures":["GraniteForCausalLM"],"logits_scaling":0`, "logits_scaling: 0, want a positive number", false},
		"logit scale":         {`"architectures":["CohereForCausalLM"],"logit_scale":-0.0`, "logit_scale: 0, want a positive number", false},
		"embedding scale":     {`"architectures":["GraniteForCausalLM"],"embedding_multiplier":0`, "embedding_multiplier: 0, want", false},
		"no experts' scale":   {`"architectures":["DeepseekV3ForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"routed_scaling_factor":0`, "routed_scaling_factor: 0, want", false},
		"half an expert":      {`"architectures":["DeepseekV3ForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"n_shared_experts":0.5`, "n_shared_experts: 0.5, want a whole number", false},
		"negative experts":    {`"architectures":["DeepseekV3ForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"n_shared_experts":-1`, "n_shared_experts: -1, want a whole number", false},
		"negative groups":     {`"architectures":["DeepseekV3ForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"topk_group":1e99`, "topk_group: 1e99, want a whole number", false},
		"number of Python":    {`"rms_norm_eps":NaN`, "rms_norm_eps: NaN is not a number", false},
		"Infinity, elsewhere": {`"architectures":["FalconMambaForCausalLM"],"time_step_limit":[0.0,Infinity]`, `"FalconMambaForCausalLM"`, true},
		"clip behind norms":   {`"architectures":["OlmoeForCausalLM"],"num_experts":8,"num_experts_per_tok":2,"clip_qkv":8.0`, `clip_qkv: unsupported: "8.0"`, true},
		"dense by types":      {`"architectures":["DeepseekV3ForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"mlp_layer_types":["dense","sparse"]`, "mlp_layer_types: unsupported: [\"dense\",\"sparse\"] is not known of this architecture", true},
		"few types of MLPs":   {`"architectures":["MellumForCausalLM"],"mlp_layer_types":["dense"]`, "mlp_layer_types: 1 layers, want 2", false},
		"types of MLPs":       {`"architectures":["MellumForCausalLM"],"mlp_layer_types":["dense","wide"]`, `mlp_layer_types: unsupported: "wide"`, true},
		"few thetas":          {`"architectures":["GraniteSWAForCausalLM"],"sliding_window":8,"layer_rope_theta":[0]`, "layer_rope_theta: 1 layers, want 2", false},
		"linear attention":    {`"architectures":["MiniMaxM2ForCausalLM"],"num_local_experts":4,"num_experts_per_tok":2,"attn_type_list":[1,0]`, `attn_type_list: unsupported: "layers without softmax"`, true},
		"alibi":               {`"architectures":["FalconForCausalLM"],"alibi":true`, `alibi: unsupported: "true"`, true},
		"attention types":     {`"architectures":["GPTNeoForCausalLM"],"attention_types":[[["global","wide"],1]]`, `attention_types: unsupported: "wide"`, true},
		"few attention types": {`"architectures":["GPTNeoForCausalLM"],"attention_types":[[["global"],1]]`, "attention_types: 1 layers, want 2", false},
		"other layers":        {`"architectures":["GPTNeoForCausalLM"],"attention_layers":["local","local"]`, "attention_layers: other layers than attention_types says", false},
		"endless types":       {`"architectures":["GPTNeoForCausalLM"],"attention_types":[[["global"],1000000000]]`, "attention_types: want lists of words", false},
		"ALiBi, Baichuan":     {`"architectures":["BaichuanForCausalLM"],"max_position_embeddings":null`, "max_position_embeddings: unsupported: it is missing, as where positions are those of ALiBi", true},
		"first Baichuan":      {`"architectures":["BaichuanForCausalLM"],"max_position_embeddings":64,"vocab_size":64000`, "vocab_size: unsupported: 64000, as of the first Baichuan", true},
		"other ChatGLM":       {`"architectures":["ChatGLMModel"],"multi_query_attention":false`, `multi_query_attention: unsupported: "false"`, true},
		"quantized ChatGLM":   {`"architectures":["ChatGLMModel"],"quantization_bit":4`, `quantization_bit: unsupported: "4"`, true},
		"blocks of attention": {`"architectures":["BailingMoeV2ForCausalLM"],"num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"n_group":2,"topk_group":1,"moba_block_size":1024`, "moba_block_size: unsupported: 1024", true},
		"wide shared expert":  {`"architectures":["BailingMoeV2ForCausalLM"],"num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"n_group":2,"topk_group":1,"moe_shared_expert_intermediate_size":64`, `moe_shared_expert_intermediate_size: unsupported: "64"`, true},
		"scaled DeepSeek 1":   {`"architectures":["DeepseekForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"routed_scaling_factor":2.5`, `routed_scaling_factor: unsupported: "2.5"`, true},
		"text of Kimi VL":     {`"architectures":["KimiVLForConditionalGeneration"],"text_config":{"model_type":"kimi_linear"}`, `model_type: unsupported: "kimi_linear"`, true},
		"llama3 backwards":    {`"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":1,"original_max_position_embeddings":32}`, "frequency bounds 4 and 1, want the second larger", false},
		"yarn backwards":      {`"rope_scaling":{"rope_type":"yarn","factor":8,"beta_fast":1,"beta_slow":2}`, "frequency bounds 2 and 1, want the second larger", false},
		"two of Llama 4":      {`"architectures":["Llama4ForCausalLM"],"num_local_experts":4,"num_experts_per_tok":2`, "num_experts_per_tok: 2, want 1", false},
		"no chunk":            {`"architectures":["Llama4ForCausalLM"],"num_local_experts":4,"no_rope_layers":[1,0],"floor_scale":1`, "floor_scale 1, want 1 or more, and 2 or more", false},
		"other chunks":        {`"architectures":["Llama4ForCausalLM"],"num_local_experts":4,"layer_types":["chunked_attention","sliding_attention"]`, `layer_types: unsupported: "sliding_attention"`, true},
		"no choice":           {`"architectures":["DeepseekV32ForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"index_topk":0`, "index_topk: 0, want 1 or more", false},
		"not indexed":         {`"architectures":["GlmMoeDsaForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"layer_types":["full_attention","indexed_attention"]`, `layer_types: unsupported: "full_attention"`, true},
		"choice of experts":   {`"architectures":["Cohere2MoeForCausalLM"],"num_experts":4,"sliding_window":8,"expert_selection_fn":"tanh"`, `expert_selection_fn: unsupported: "tanh"`, true},
		"sum of experts":      {`"architectures":["Cohere2MoeForCausalLM"],"num_experts":4,"sliding_window":8,"num_shared_experts":1,"shared_expert_combination_strategy":"max"`, `shared_expert_combination_strategy: unsupported: "max"`, true},
		"no pattern":          {`"architectures":["Cohere2MoeForCausalLM"],"num_experts":4,"sliding_window":8,"prefix_dense_sliding_window_pattern":0`, "sliding_window_pattern: 4, and 0 of the first layers, want 1 or more", false},
		"wide values":         {`"architectures":["MiMoV2FlashForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"head_dim":16,"v_head_dim":32`, "v_head_dim: 32, want 1 to head_dim, 16", false},
		"heads of windows":    {`"architectures":["MiMoV2FlashForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"num_attention_heads":12,"head_dim":192,"num_key_value_heads":2,"swa_num_key_value_heads":5`, "num_attention_heads: 12, want a multiple of num_key_value_heads, 5 in layer 1", false},
		"sinks everywhere":    {`"architectures":["MiMoV2FlashForCausalLM"],"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"head_dim":192,"add_full_attention_sink_bias":true`, `add_full_attention_sink_bias: unsupported: "true"`, true},
		"heads of few layers": {`"architectures":["LagunaForCausalLM"],"num_attention_heads_per_layer":[4]`, "num_attention_heads_per_layer: 1 layers, want 2", false},
		"half a head":         {`"architectures":["LagunaForCausalLM"],"num_attention_heads_per_layer":[4,4.5]`, "num_attention_heads_per_layer: 4.5, want whole numbers", false},
		"capped routing":      {`"architectures":["LagunaForCausalLM"],"moe_router_logit_softcapping":30`, `moe_router_logit_softcapping: unsupported: "30"`, true},
		"other gates":         {`"architectures":["LagunaForCausalLM"],"gating":"per-token"`, `gating: unsupported: "per-token"`, true},
		"gates of a layer":    {`"architectures":["LagunaForCausalLM"],"gating_types":["per_head","none"]`, `gating_types: unsupported: "none"`, true},
		"RoPE of no kind":     {`"architectures":["LagunaForCausalLM"],"rope_parameters":{"rope_theta":7}`, "rope_parameters.full_attention: missing", false},
		"thetas of layers":    {`"architectures":["Step3p5ForCausalLM"],"rope_theta":[1e4]`, "rope_theta: 1 layers, want 2", false},
		"few limits":          {`"architectures":["Step3p5ForCausalLM"],"swiglu_limits":[7]`, "swiglu_limits: 1 layers, want 2", false},
		"negative limits":     {`"architectures":["Step3p5ForCausalLM"],"swiglu_limits":[7,-7]`, "swiglu_limits: -7, want 0 to 10000", false},
		"experts by words":    {`"architectures":["Step3p5ForCausalLM"],"moe_layers_enum":"1,last"`, `moe_layers_enum: "last", want numbers of layers`, false},
		"other RoPE scaled":   {`"architectures":["Step3p5ForCausalLM"],"yarn_only_types":["sliding_attention"]`, `yarn_only_types: unsupported: "sliding_attention"`, true},
		"layer by layer":      {`"architectures":["Step3p5ForCausalLM"],"per_layer_config":{"0":{"num_attention_heads":8}}`, "per_layer_config: unsupported: layer 0", true},
		"few multipliers":     {`"architectures":["FalconH1ForCausalLM"],"mamba_d_ssm":64,"mamba_n_heads":4,"ssm_multipliers":[1,2]`, "ssm_multipliers: [1 2], want 5 positive numbers", false},
		"norm before a gate":  {`"architectures":["FalconH1ForCausalLM"],"mamba_d_ssm":64,"mamba_n_heads":4,"mamba_rms_norm":true`, "mamba_norm_before_gate: unsupported", true},
		"kinds of LFM3":       {`"architectures":["Lfm3ForCausalLM"],"layer_types":["conv","mamba"]`, `layer_types: unsupported: "mamba"`, true},
		"convolved by gelu":   {`"architectures":["OlmoHybridForCausalLM"],"hidden_act":"gelu"`, `hidden_act: unsupported: "gelu"`, true},
		"no step of experts":  {`"architectures":["Ernie4_5_MoeForCausalLM"],"moe_layer_interval":0`, "moe_layer_interval: 0, want 1 or more", false},
		"clipping Llama":      {`"architectures":["LlamaForCausalLM"],"model_type":"iquestcoder","clip_qkv":8`, `clip_qkv: unsupported: "8"`, true},
		"another MiniCPM-V":   {`"architectures":["MiniCPMV"],"version":2.0`, `version: unsupported: "2.0", want 2.6 or 4.5`, true},
		"tied table and rows": {`"architectures":["MllamaForConditionalGeneration"],"tie_word_embeddings":true`, "tie_word_embeddings: unsupported", true},
		"scaled thetas":       {`"architectures":["MuseGlimmerForConditionalGeneration"],"text_config":{"num_hidden_layers":1,"layer_rope_theta":[7]}`, "layer_rope_theta: unsupported", true},
		"inner model":         {`"architectures":["LlavaForConditionalGeneration"],"text_config":{"model_type":"t5"}`, `text_config.model_type: unsupported: "t5"`, true},
		"two architectures":   {`"architectures":["LlamaForCausalLM","MistralForCausalLM"]`, "architectures: want a list of one", false},
		"activation":          {`"hidden_act":"mish"`, `hidden_act: unsupported: "mish"`, true},
		"two activations":     {`"architectures":["GemmaForCausalLM"],"hidden_act":"relu","hidden_activation":"gelu_pytorch_tanh"`, `hidden_activation: unsupported: "gelu_pytorch_tanh beside another hidden_act`, true},
		"rope type":           {`"rope_scaling":{"type":"spiral"}`, `rope_scaling.type: unsupported: "spiral"`, true},
		"new rope type":       {`"rope_parameters":{"rope_type":"spiral"}`, `rope_parameters.rope_type: unsupported: "spiral"`, true},
		"rope factor":         {`"rope_scaling":{"type":"linear"}`, "rope_scaling.factor: missing", false},
		"rope factor zero":    {`"rope_scaling":{"type":"yarn","factor":0}`, "rope_scaling.factor: 0", false},
		"rope not an object":  {`"rope_scaling":"linear"`, "rope_scaling: linear is not an object", false},
		"theta":               {`"rope_theta":-1`, "rope_theta: -1", false},
		"small theta":         {`"rope_theta":1e-320`, "rope_theta: 1e-320, want 1 or more", false},
		"theta of yarn":       {`"rope_theta":1,"rope_scaling":{"type":"yarn","factor":2}`, "rope_theta: 1, want more", false},
		"many layers":         {`"num_hidden_layers":1000000000`, "num_hidden_layers: 1000000000", false},
		"negative heads":      {`"num_attention_heads":-4`, "num_attention_heads: -4", false},
		"no heads":            {`"num_attention_heads":0`, "num_attention_heads: 0", false},
		"heads for keys":      {`"num_key_value_heads":3`, "multiple of num_key_value_heads", false},
		"odd heads":           {`"head_dim":15`, "15 rotated dimensions", false},
		"huge":                {`"hidden_size":1e300`, "hidden_size: 1e300 is not a 32-bit integer", false},
		"fraction":            {`"vocab_size":1.5`, "vocab_size: 1.5", false},
		"string":              {`"hidden_size":"big"`, "hidden_size: big is not a number", false},
		"boolean":             {`"mlp_bias":1`, "mlp_bias: 1 is not true or false", false},
		"wide heads":          {`"num_attention_heads":1000000,"head_dim":1000000`, "width of all heads", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(c.more)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %v, want one line about %q", err, c.want)
			}
			if errors.Is(err, ErrUnsupported) != c.unsupported {
				t.Errorf("unsupported: %v", !c.unsupported)
			}
		})
	}
}

func TestNotAConfig(t *testing.T) {
	for _, text := range []string{"", "[]", "null", "{", `{"architectures":["LlamaForCausalLM"]} {}`, "\xff"} {
		if _, err := ParseConfig("config.json", []byte(text)); err == nil || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: error %v, want one in words", text, err)
		}
	}
	if _, err := ReadConfig(t.TempDir()); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("missing file: %v", err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(base + "}"))
	f.Add([]byte(base + `,"rope_parameters":{"rope_type":"yarn","factor":4}}`))
	f.Add([]byte(`{"architectures":["MistralForCausalLM"],"sliding_window":-1}`))
	for _, path := range []string{"testdata/configs.txtar", "testdata/classes.txtar"} {
		list, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range list.Files {
			config, _, _ := strings.Cut(string(file.Data), "\n")
			f.Add([]byte(config))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig("config.json", data)
		if err != nil {
			return
		}
		s, err := For(c)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of several lines: %q", err)
			}
			return
		}
		for l := range min(s.Layers, 8) {
			if s.Rope != nil {
				s.Rope(l).Frequencies()
				s.Rope(l).For(1 << 20).Frequencies()
			}
			if s.Window != nil && s.Window(l) < 0 {
				t.Fatalf("window %d", s.Window(l))
			}
			s.Sparse(l)
		}
		s.Features()
		if s.Layers < 1 || s.Attn.Heads%s.Attn.KVHeads != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

// Layers behind the last, which DeepSeek's files have, frequencies and masks are not read.
func TestUnused(t *testing.T) {
	s := Spec{Layers: 3, Further: 1, Names: Names{Layers: "model.layers.*"}}
	for name, want := range map[string]bool{
		"model.layers.3.eh_proj.weight": true, "model.layers.2.mlp.up_proj.weight": false, "model.layers.30.mlp.up_proj.weight": true,
		"model.layers.2x.mlp.up_proj.weight": false, "vision.layers.30.mlp.up_proj.weight": false, "model.layers.30": false,
		"model.layers.0.self_attn.rotary_emb.inv_freq": true, "model.embed_tokens.weight": false, "mtp.layers.0.mlp.up_proj.weight": true, "model.mtp_layers.0.final_layernorm.weight": true,
		"model.layers.0.attn.bias": true, "model.layers.0.attn.masked_bias": true, "model.layers.0.attention.bias": true, "model.layers.0.attention.masked_bias": true,
		"model.layers.0.attn.c_attn.bias": false, "model.layers.0.attention.dense.bias": false, "visual.blocks.0.attn.bias": false, "attention.bias": false,
	} {
		if got := s.Unused(name); got != want {
			t.Errorf("%s: unused %v, want %v", name, got, want)
		}
	}
}

// The README says how many names there are.
func TestNumberOfNames(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Architectures: %d names", len(Known())); !strings.Contains(string(text), want) {
		t.Errorf("README.md does not say %q", want)
	}
}
