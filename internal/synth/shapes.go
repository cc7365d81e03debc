// Package synth makes random models: of any shape, in fp16 or EXL2, in memory
// or as files, for benchmarks and tests. The same shape and seed give the same
// bytes.
//
// The nouns: a [Shape] is a configuration with a name. A [Model] is a shape
// with random weights, which come into being when they are asked for.
package synth

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/ordered"
	"exl2/internal/regular"
)

// A Shape is the configuration of a model.
type Shape struct {
	Name   string
	Config ordered.Object // config.json
}

// family is what a known model's config.json says, but for what is alike in
// all of them.
type family struct {
	architecture string
	vocab        int
	hidden       int
	layers       int
	heads        int
	kvHeads      int
	width        int
	theta        float64
	positions    int
	more         map[string]any
}

// families are known models by the names that bench and synth take; sizes are
// those of the published configurations.
var families = map[string]family{
	"tinyllama-1.1b": {"LlamaForCausalLM", 32000, 2048, 22, 32, 4, 5632, 10000, 2048, nil},
	"llama2-7b":      {"LlamaForCausalLM", 32000, 4096, 32, 32, 32, 11008, 10000, 4096, nil},
	"llama2-13b":     {"LlamaForCausalLM", 32000, 5120, 40, 40, 40, 13824, 10000, 4096, nil},
	"llama2-70b":     {"LlamaForCausalLM", 32000, 8192, 80, 64, 8, 28672, 10000, 4096, nil},
	"llama3-8b":      {"LlamaForCausalLM", 128256, 4096, 32, 32, 8, 14336, 500000, 8192, nil},
	"llama3-70b":     {"LlamaForCausalLM", 128256, 8192, 80, 64, 8, 28672, 500000, 8192, nil},
	"mistral-7b":     {"MistralForCausalLM", 32000, 4096, 32, 32, 8, 14336, 10000, 32768, map[string]any{"sliding_window": 4096}},
	"qwen2.5-0.5b":   {"Qwen2ForCausalLM", 151936, 896, 24, 14, 2, 4864, 1000000, 32768, map[string]any{"tie_word_embeddings": true}},
	"qwen2.5-3b":     {"Qwen2ForCausalLM", 151936, 2048, 36, 16, 2, 11008, 1000000, 32768, map[string]any{"tie_word_embeddings": true}},
	"qwen2.5-7b":     {"Qwen2ForCausalLM", 152064, 3584, 28, 28, 4, 18944, 1000000, 32768, nil},
	"llama3.2-3b": {"LlamaForCausalLM", 128256, 3072, 28, 24, 8, 8192, 500000, 131072, map[string]any{
		"head_dim": 128, "tie_word_embeddings": true,
		"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
	}},
	"qwen3-4b":  {"Qwen3ForCausalLM", 151936, 2560, 36, 32, 8, 9728, 1000000, 40960, map[string]any{"head_dim": 128, "tie_word_embeddings": true}},
	"qwen3-8b":  {"Qwen3ForCausalLM", 151936, 4096, 36, 32, 8, 12288, 1000000, 40960, map[string]any{"head_dim": 128}},
	"qwen3-14b": {"Qwen3ForCausalLM", 151936, 5120, 40, 40, 8, 17408, 1000000, 40960, map[string]any{"head_dim": 128}},
	"mixtral-8x7b": {"MixtralForCausalLM", 32000, 4096, 32, 32, 8, 14336, 1000000, 32768, map[string]any{
		"num_local_experts": 8, "num_experts_per_tok": 2,
	}},
	"qwen3.5-9b": {"Qwen3_5ForCausalLM", 248320, 4096, 32, 16, 4, 12288, 10000000, 262144, map[string]any{"head_dim": 256, "partial_rotary_factor": 0.25}},
	"qwen3.5-35b-a3b": {"Qwen3_5MoeForCausalLM", 248320, 2048, 40, 16, 2, 512, 10000000, 262144, map[string]any{
		"head_dim": 256, "partial_rotary_factor": 0.25, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
	}},
	"gpt-oss-20b": {"GptOssForCausalLM", 201088, 2880, 24, 64, 8, 2880, 150000, 131072, map[string]any{
		"head_dim": 64, "num_local_experts": 32, "num_experts_per_tok": 4,
	}},
	"granite-4.0-h-tiny": {"GraniteMoeHybridForCausalLM", 100352, 1536, 40, 12, 4, 512, 10000, 131072, map[string]any{
		"layer_types": kinds(40, "mamba", "attention", 5, 15, 25, 35), "mamba_n_heads": 48, "mamba_d_state": 128, "num_local_experts": 64, "num_experts_per_tok": 6,
		"shared_intermediate_size": 1024, "attention_multiplier": 0.0078125, "embedding_multiplier": 12, "logits_scaling": 6, "residual_multiplier": 0.22, "tie_word_embeddings": true,
	}},
	"nemotron-nano-9b": {"NemotronHForCausalLM", 131072, 4480, 56, 40, 8, 15680, 10000, 131072, map[string]any{
		"hidden_act": "relu2", "head_dim": 128, "mamba_num_heads": 128, "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
	}},
	"nemotron-3-nano-30b-a3b": {"NemotronHForCausalLM", 131072, 2688, 52, 32, 2, 1856, 10000, 262144, map[string]any{
		"hidden_act": "relu2", "head_dim": 128, "mamba_num_heads": 64, "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
		"n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712, "routed_scaling_factor": 2.5,
	}},
	"lfm2-1.2b": {"Lfm2ForCausalLM", 65536, 2048, 16, 32, 8, 12288, 1000000, 128000, map[string]any{
		"layer_types": kinds(16, "conv", "full_attention", 2, 5, 8, 10, 12, 14), "tie_word_embeddings": true,
	}},
	"lfm2-8b-a1b": {"Lfm2MoeForCausalLM", 65536, 2048, 24, 32, 8, 7168, 1000000, 128000, map[string]any{
		"layer_types": kinds(24, "conv", "full_attention", 2, 6, 10, 14, 18, 21), "tie_word_embeddings": true, "num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 1792,
	}},
	"qwen3-30b-a3b": {"Qwen3MoeForCausalLM", 151936, 2048, 48, 32, 4, 6144, 1000000, 40960, map[string]any{
		"head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true,
	}},
}

// kinds lists what layers are: all but some of one kind, those of another.
func kinds(layers int, most, some string, at ...int) []string {
	list := make([]string, layers)
	for l := range list {
		list[l] = most
		if slices.Contains(at, l) {
			list[l] = some
		}
	}
	return list
}

// Names lists the shapes that Known has.
func Names() []string { return slices.Sorted(maps.Keys(families)) }

// Known returns the shape of a known model.
func Known(name string) (*Shape, error) {
	f, ok := families[name]
	if !ok {
		return nil, fmt.Errorf("shape %q, want one of %s, or a config.json", name, strings.Join(Names(), ", "))
	}
	c := ordered.Object{
		{Name: "architectures", Value: []string{f.architecture}}, {Name: "hidden_size", Value: f.hidden},
		{Name: "intermediate_size", Value: f.width}, {Name: "num_hidden_layers", Value: f.layers},
		{Name: "num_attention_heads", Value: f.heads}, {Name: "num_key_value_heads", Value: f.kvHeads},
		{Name: "vocab_size", Value: f.vocab}, {Name: "max_position_embeddings", Value: f.positions},
		{Name: "rope_theta", Value: f.theta}, {Name: "rms_norm_eps", Value: 1e-5}, {Name: "hidden_act", Value: "silu"},
		{Name: "bos_token_id", Value: 1}, {Name: "eos_token_id", Value: 2}, {Name: "torch_dtype", Value: "float16"},
	}
	for _, key := range slices.Sorted(maps.Keys(f.more)) {
		c.Set(key, f.more[key])
	}
	return &Shape{name, c}, nil
}

// mostConfig is how long a config.json may be, in bytes.
const mostConfig = 16 << 20

// Read returns the shape of a file, a config.json.
func Read(file string) (*Shape, error) {
	data, err := regular.ReadFile(file, mostConfig)
	if err != nil {
		return nil, err
	}
	return FromConfig(file, data)
}

// FromConfig returns the shape of a config.json; file names it in messages. How the
// model's own weights are quantized is left out: random ones are not.
func FromConfig(file string, data []byte) (*Shape, error) {
	c, err := ordered.Parse(ordered.FromPython(data, ordered.Tagged))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &Shape{file, slices.DeleteFunc(c, func(f ordered.Field) bool { return slices.Contains(arch.QuantizationKeys, f.Name) })}, nil
}

// SetLayers gives the shape another number of layers.
func (s *Shape) SetLayers(n int) { s.Config.Set("num_hidden_layers", n) }

// spec interprets the configuration.
func (s *Shape) spec() (arch.Spec, error) {
	data, err := json.Marshal(s.Config)
	if err != nil {
		return arch.Spec{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	c, err := arch.ParseConfig(s.Name, data)
	if err != nil {
		return arch.Spec{}, err
	}
	return arch.For(c)
}
