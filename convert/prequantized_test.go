package convert

import (
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/prequant/prequanttest"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// Models that others have quantized are converted, to the byte, to what those with
// their decoded weights are, whatever form the source has them in.
func TestPrequantized(t *testing.T) {
	plain := func(m prequanttest.Matrix, dtype string, data []byte) *safetensors.Tensor {
		return &safetensors.Tensor{Info: safetensors.Info{Name: m.Name, DType: dtype, Shape: m.Shape}, Data: data}
	}
	gptq := func(m prequanttest.Matrix) ([]safetensors.Tensor, *safetensors.Tensor) {
		module, ok := strings.CutSuffix(m.Name, ".weight")
		if !ok || len(m.Shape) != 2 || m.Shape[0]%8 != 0 || m.Shape[1]%32 != 0 {
			return nil, nil
		}
		c := prequanttest.Round(m.W, m.Shape[0], m.Shape[1], 4, 32, false, true)
		return c.GPTQ(module, 1), plain(m, "F16", tensor.BytesOf(c.Weights()))
	}
	for _, c := range []struct {
		name, arch string
		config     map[string]any
		encode     func(m prequanttest.Matrix) ([]safetensors.Tensor, *safetensors.Tensor)
		warns      bool
	}{
		{"fp8 of experts and latents", "deepseek_v3", map[string]any{"quant_method": "fp8", "weight_block_size": []int{64, 64}},
			func(m prequanttest.Matrix) ([]safetensors.Tensor, *safetensors.Tensor) {
				module, ok := strings.CutSuffix(m.Name, ".weight")
				if !ok || strings.HasSuffix(module, ".gate") {
					return nil, nil
				}
				tensors, data := prequanttest.FP8(module, ".weight_scale_inv", m.W, m.Shape[0], m.Shape[1], 64, 64)
				return tensors, plain(m, "BF16", tensor.BytesOf(data))
			}, false},
		{"mxfp4", "gpt_oss", map[string]any{"quant_method": "mxfp4", "modules_to_not_convert": []string{"model.layers.*.self_attn", "model.embed_tokens", "lm_head"}},
			func(m prequanttest.Matrix) ([]safetensors.Tensor, *safetensors.Tensor) {
				if len(m.Shape) != 3 {
					return nil, nil
				}
				experts, in, out := m.Shape[0], m.Shape[1], m.Shape[2]
				tensors, data := prequanttest.MXFP4(m.Name, prequanttest.Turned(m.W, experts, in, out), experts, out, in)
				return tensors, plain(m, "BF16", tensor.BytesOf(prequanttest.Turned(data, experts, out, in)))
			}, false},
		{"gptq of fused matrices", "gpt_neox", map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true}, gptq, true},
		{"gptq of experts", "qwen2_moe", map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true}, gptq, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
			if err := prequanttest.Rewrite(goldenModel(t, c.arch), a, b, c.config, c.encode); err != nil {
				t.Fatal(err)
			}
			var made [2]map[string]string
			for i, source := range []string{a, b} {
				o := options(t, source, "4.5")
				o.Data.Rows, o.Data.Length, o.Data.MeasureRows, o.Data.MeasureLength = 3, 40, 2, 40
				o.Out = filepath.Join(t.TempDir(), "out")
				_, w := mustRun(t, o)
				if made[i] = contents(t, o.Out); i == 0 && strings.Contains(strings.Join(w.warnings, "\n"), "stays lost") != c.warns {
					t.Errorf("warnings %q", w.warnings)
				}
			}
			if name := "output.safetensors"; made[0][name] == "" || made[0][name] != made[1][name] {
				t.Errorf("%s: %d bytes, want the %d that the decoded weights make", name, len(made[0][name]), len(made[1][name]))
			}
		})
	}
}
