package model_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/goldens"
	"exl2/internal/half"
	"exl2/internal/model"
	"exl2/internal/prequant"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// edited returns a copy of a golden model with other fields in config.json, and
// more tensors, all in fp16.
func edited(t *testing.T, name string, fields map[string]any, more map[string][]half.F16) string {
	t.Helper()
	return renamed(t, name, fields, more, func(name string) string { return name })
}

// renamed is edited with other names of tensors.
func renamed(t *testing.T, name string, fields map[string]any, more map[string][]half.F16, called func(string) string) string {
	t.Helper()
	from, dir := golden(t, name), t.TempDir()
	data, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	maps.Copy(config, fields)
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	files, err := safetensors.OpenDir(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	var list []safetensors.Tensor
	for _, name := range files.Names() {
		x, err := files.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		x.Name = called(name)
		list = append(list, x)
	}
	for name, v := range more {
		list = append(list, safetensors.Tensor{Info: safetensors.Info{Name: name, DType: "F16", Shape: []int{len(v)}}, Data: tensor.BytesOf(v)})
	}
	write(t, filepath.Join(dir, "model.safetensors"), list)
	return dir
}

func write(t *testing.T, path string, list []safetensors.Tensor) {
	t.Helper()
	var infos []safetensors.Info
	for _, x := range list {
		infos = append(infos, x.Info)
	}
	w, err := safetensors.Create(path, infos)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, x := range list {
		if err := w.Write(x.Name, x.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// Biases that config.json does not speak of are refused, as other programs would
// add them, unless they are zero.
func TestStrayBiases(t *testing.T) {
	one := func(n int) []half.F16 {
		v := make([]half.F16, n)
		v[n-1] = half.ToF16(1)
		return v
	}
	const attention, norm, head = "model.layers.1.self_attn.q_proj.bias", "model.layers.0.input_layernorm.bias", "lm_head.bias"
	for _, c := range []struct {
		name, arch string
		fields     map[string]any
		more       map[string][]half.F16
		want       string // in the error
	}{
		{"not spoken of", "llama_tied_bias", map[string]any{"attention_bias": false}, nil, "model.layers.0.self_attn.q_proj.bias: element 0 is "},
		{"of attention", "llama", nil, map[string][]half.F16{attention: one(64)}, attention + ": element 63 is 1"},
		{"of a norm", "llama", nil, map[string][]half.F16{norm: one(64)}, norm + ": element 63 is 1"},
		{"of the head", "llama", nil, map[string][]half.F16{head: one(128)}, head + ": element 127 is 1"},
		{"fused", "gpt_neox", map[string]any{"attention_bias": false}, nil, "query_key_value.bias: element 0 is "},
		{"zero", "llama", nil, map[string][]half.F16{attention: make([]half.F16, 64), norm: make([]half.F16, 64)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, files, err := model.Open(edited(t, c.arch, c.fields, c.more))
			if err == nil {
				defer files.Close()
			}
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				for name := range c.more {
					if slices.Contains(l.Files.Names(), name) {
						t.Errorf("%s is shown", name)
					}
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// A matrix that the files have twice is read as EXL2, which is said.
func TestMatrixStoredTwice(t *testing.T) {
	const matrix = "model.layers.1.mlp.up_proj"
	l, files, err := model.Open(edited(t, "llama", nil, map[string][]half.F16{matrix + ".q_weight": make([]half.F16, 32)}))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if list := l.Warnings(); len(list) != 1 || !strings.Contains(list[0], "such as "+matrix+":") {
		t.Errorf("warnings %q, want one of %s", list, matrix)
	}
}

// A head of the model's own is used, whatever config.json says of it.
func TestTiedButStored(t *testing.T) {
	dir := edited(t, "llama", map[string]any{"tie_word_embeddings": true}, nil)
	ids := []int32{5, 9, 2, 77, 31, 8, 8, 100}
	want := logits(t, openModel(t, golden(t, "llama")), ids, 1, 8)
	compareLogits(t, logits(t, openModel(t, dir), ids, 1, 8), want, 1e-12)
}

// A tied model may keep its table under the head's name alone.
func TestTiedToTheHead(t *testing.T) {
	ids := []int32{5, 9, 2, 77, 31, 8, 8, 100}
	for _, c := range []struct{ name, embed, head, prefix string }{
		{"llama_tied_bias", "model.embed_tokens.weight", "lm_head.weight", ""},
		{"gpt2", "transformer.wte.weight", "lm_head.weight", ""},
		{"gpt2", "wte.weight", "lm_head.weight", "transformer."},
	} {
		dir := renamed(t, c.name, nil, nil, func(name string) string {
			if name = strings.TrimPrefix(name, c.prefix); name == c.embed {
				return c.head
			}
			return name
		})
		l := openModel(t, dir)
		if l.Files.Has(c.head) && slices.Contains(l.Files.Names(), c.head) || !slices.Contains(l.Files.Names(), l.Spec.Names.Embed+".weight") {
			t.Errorf("%s: shown are %q", c.name, l.Files.Names())
		}
		compareLogits(t, logits(t, l, ids, 1, 8), logits(t, openModel(t, golden(t, c.name)), ids, 1, 8), 1e-12)
	}
}

// Layers that nothing reads are said.
func TestLayersBehind(t *testing.T) {
	for layers, want := range map[int]string{2: "", 1: "nothing reads, such as model.layers.1."} {
		l := openModel(t, edited(t, "llama", map[string]any{"num_hidden_layers": layers}, nil))
		if got := strings.Join(l.Warnings(), "; "); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%d layers: %q, want %q", layers, got, want)
		}
	}
}

// Matrices and norms of a layer that nothing reads are said; buffers are not.
func TestUnreadWeights(t *testing.T) {
	const layer = "model.layers.0."
	for _, c := range []struct {
		arch   string
		fields map[string]any
		more   string // a tensor's name
		want   string
	}{
		{"llama", nil, layer + "self_attn.q_norm.weight", layer + "self_attn.q_norm.weight: by config.json"},
		{"llama", nil, layer + "self_attn.q_proj.lora_A.weight", "lora_A.weight"},
		{"llama", nil, layer + "self_attn.rotary_emb.inv_freq", ""},
		{"llama", nil, "visual.layers.0.weight", ""},
		{"deepseek_v3", map[string]any{"n_shared_experts": nil}, "x", "mlp.shared_experts.down_proj.weight"},
		{"qwen2_moe", map[string]any{"shared_expert_intermediate_size": 0}, "x", "mlp.shared_expert.down_proj.weight"},
	} {
		l := openModel(t, edited(t, c.arch, c.fields, map[string][]half.F16{c.more: make([]half.F16, 4)}))
		if got := strings.Join(l.Warnings(), "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s with %s, %v: %q, want %q", c.arch, c.more, c.fields, got, c.want)
		}
	}
	for _, dir := range append(goldens.Dirs(t, "arch"), goldens.Dirs(t, "exl2")...) {
		l, files, err := model.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(l.Warnings(), func(w string) bool { return l.Spec.Bound > 0 && strings.HasPrefix(w, "sequences of more than") })
		if len(got) > 0 {
			t.Errorf("%s: %q", dir, got)
		}
		files.Close()
	}
}

// What is not understood of a quantization_config is said beside what is not of config.json.
func TestNotKnown(t *testing.T) {
	l := model.Loader{Spec: arch.Spec{Warnings: []string{"colour"}}, Scheme: &prequant.Scheme{Warning: "of the scheme"}}
	want := []string{"config.json: fields that are not known, and are taken to mean nothing: colour", "of the scheme"}
	if got := l.NotKnown(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
