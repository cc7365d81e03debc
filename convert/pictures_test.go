package convert

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/goldens"
	"exl2/internal/half"
	"exl2/internal/prequant/prequanttest"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// Of models that see pictures the text part is converted, to what it becomes alone,
// and the tensors of pictures are copied, wherever they stand.
func TestPictures(t *testing.T) {
	for _, c := range []struct {
		name, text string
		config     map[string]any // beside text_config, or beside the text's own fields
		flat       bool           // the text's fields are config.json's own
		prefix     map[string]string
		pictures   []string
	}{
		{"llava", "llama", map[string]any{"architectures": []string{"LlavaForConditionalGeneration"}, "model_type": "llava"}, false,
			map[string]string{"": "language_model."}, []string{"vision_tower.vision_model.embeddings.patch_embedding.weight", "multi_modal_projector.linear_1.weight"}},
		{"pixtral", "mistral", map[string]any{"architectures": []string{"LlavaForConditionalGeneration"}, "model_type": "llava"}, false,
			map[string]string{"": "language_model."}, []string{"vision_tower.transformer.layers.0.attention.q_proj.weight"}},
		{"mistral3", "mistral", map[string]any{"architectures": []string{"Mistral3ForConditionalGeneration"}, "model_type": "mistral3"}, false,
			map[string]string{"model.": "model.language_model."}, []string{"model.vision_tower.patch_conv.weight", "model.multi_modal_projector.norm.weight"}},
		{"gemma3", "gemma3", map[string]any{"architectures": []string{"Gemma3ForConditionalGeneration"}, "model_type": "gemma3"}, false,
			map[string]string{"": "language_model."}, []string{"vision_tower.vision_model.post_layernorm.bias", "multi_modal_projector.mm_input_projection_weight"}},
		{"qwen2_vl", "qwen2", map[string]any{"architectures": []string{"Qwen2VLForConditionalGeneration"}, "model_type": "qwen2_vl"}, true,
			nil, []string{"visual.blocks.0.attn.qkv.weight", "visual.merger.mlp.0.bias"}},
		{"qwen2_5_vl", "qwen2", map[string]any{"architectures": []string{"Qwen2_5_VLForConditionalGeneration"}, "model_type": "qwen2_5_vl"}, false,
			map[string]string{"model.": "model.language_model."}, []string{"model.visual.blocks.0.mlp.gate_proj.weight"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from := goldenModel(t, c.text)
			plain, seeing := filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "seeing")
			rename := func(name string) string {
				for old, prefix := range c.prefix {
					if rest, ok := strings.CutPrefix(name, old); ok {
						return prefix + rest
					}
				}
				return name
			}
			writeSeeing(t, from, plain, nil, false, func(name string) string { return name }, nil)
			writeSeeing(t, from, seeing, c.config, c.flat, rename, c.pictures)
			a, b := convertedTensors(t, plain), convertedTensors(t, seeing)
			for name, x := range a {
				if y := b[rename(name)]; y.DType != x.DType || !bytes.Equal(y.Data, x.Data) {
					t.Errorf("%s is %s of %d bytes, alone %s of %d", rename(name), y.DType, len(y.Data), x.DType, len(x.Data))
				}
			}
			for i, name := range c.pictures {
				if y := b[name]; y.DType != "F16" || !bytes.Equal(y.Data, tensor.BytesOf(picture(i))) {
					t.Errorf("%s is %s of %d bytes", name, y.DType, len(y.Data))
				}
			}
			if len(b) != len(a)+len(c.pictures) {
				t.Errorf("%d tensors, want %d", len(b), len(a)+len(c.pictures))
			}
		})
	}
}

// goldenModel returns the folder of a random model.
func goldenModel(t *testing.T, name string) string {
	for _, dir := range goldens.Dirs(t, "arch") {
		if filepath.Base(dir) == name {
			return dir
		}
	}
	t.Skipf("no golden of %s", name)
	return ""
}

// picture is the content of a tensor of pictures.
func picture(i int) []half.F16 {
	v := make([]half.F16, 24)
	for k := range v {
		v[k] = half.ToF16(float32(k*(i+1)) / 8)
	}
	return v
}

// writeSeeing writes a model with further tensors, under other names, and its
// configuration as that of the text part of another.
func writeSeeing(t *testing.T, from, dir string, config map[string]any, flat bool, rename func(string) string, pictures []string) {
	t.Helper()
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
		if x.Name = rename(name); strings.HasPrefix(name, "golden") || name == "input_ids" || name == "logits" {
			continue
		}
		list = append(list, x)
	}
	for i, name := range pictures {
		var wide []float32
		for _, v := range picture(i) {
			wide = append(wide, v.Float32())
		}
		list = append(list, safetensors.Tensor{Info: safetensors.Info{Name: name, DType: "F32", Shape: []int{2, 3, 4}}, Data: tensor.BytesOf(wide)})
	}
	data, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var text map[string]any
	if err := json.Unmarshal(data, &text); err != nil {
		t.Fatal(err)
	}
	if config != nil && !flat {
		config["text_config"], text = text, config
		config["tie_word_embeddings"] = config["text_config"].(map[string]any)["tie_word_embeddings"]
	}
	for key, value := range config {
		text[key] = value
	}
	if data, err = json.Marshal(text); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := prequanttest.WriteTensors(filepath.Join(dir, "model.safetensors"), list); err != nil {
		t.Fatal(err)
	}
}

// convertedTensors converts a model and returns what the result holds.
func convertedTensors(t *testing.T, source string) map[string]safetensors.Tensor {
	t.Helper()
	o := options(t, source, "4.5")
	o.Data.Rows, o.Data.Length, o.Data.MeasureRows, o.Data.MeasureLength = 3, 40, 2, 40
	o.Out = filepath.Join(t.TempDir(), "out")
	mustRun(t, o)
	files, err := safetensors.OpenDir(o.Out, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	list := map[string]safetensors.Tensor{}
	for _, name := range files.Names() {
		if list[name], err = files.Get(name); err != nil {
			t.Fatal(err)
		}
	}
	return list
}
