package model_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/goldens"
	"exl2/internal/half"
	"exl2/internal/model"
	"exl2/internal/prequant/prequanttest"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// quantizedAs writes a weight in some format.
type quantizedAs func(m prequanttest.Matrix) ([]safetensors.Tensor, *safetensors.Tensor)

// linear quantizes the weights of linears, which have two dimensions.
func linear(encode func(module string, m prequanttest.Matrix) ([]safetensors.Tensor, []byte, string)) quantizedAs {
	return func(m prequanttest.Matrix) ([]safetensors.Tensor, *safetensors.Tensor) {
		module, ok := strings.CutSuffix(m.Name, ".weight")
		if !ok || len(m.Shape) != 2 || m.Shape[0]%32 != 0 || m.Shape[1]%32 != 0 {
			return nil, nil
		}
		tensors, plain, dtype := encode(module, m)
		return tensors, &safetensors.Tensor{Info: safetensors.Info{Name: m.Name, DType: dtype, Shape: m.Shape}, Data: plain}
	}
}

// byCodes quantizes by rounding.
func byCodes(bits, group int, symmetric, ordered bool, write func(c prequanttest.Codes, module string) []safetensors.Tensor) quantizedAs {
	return linear(func(module string, m prequanttest.Matrix) ([]safetensors.Tensor, []byte, string) {
		c := prequanttest.Round(m.W, m.Shape[0], m.Shape[1], bits, group, symmetric, ordered)
		return write(c, module), tensor.BytesOf(c.Weights()), "F16"
	})
}

// Models that others have quantized compute what their decoded weights do; those
// of codes stay packed.
func TestPrequantized(t *testing.T) {
	gptq := func(version int) func(c prequanttest.Codes, module string) []safetensors.Tensor {
		return func(c prequanttest.Codes, module string) []safetensors.Tensor { return c.GPTQ(module, version) }
	}
	awq := func(c prequanttest.Codes, module string) []safetensors.Tensor { return c.AWQ(module) }
	fp8 := linear(func(module string, m prequanttest.Matrix) ([]safetensors.Tensor, []byte, string) {
		tensors, plain := prequanttest.FP8(module, ".weight_scale_inv", m.W, m.Shape[0], m.Shape[1], 64, 64)
		return tensors, tensor.BytesOf(plain), "BF16"
	})
	for _, c := range []struct {
		name, arch string
		config     map[string]any
		encode     quantizedAs
		packed     bool
	}{
		{"gptq", "llama", map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32}, byCodes(4, 32, true, false, gptq(1)), true},
		{"gptq ordered", "qwen2", map[string]any{"quant_method": "gptq", "bits": 3, "group_size": 32, "desc_act": true, "checkpoint_format": "gptq_v2"}, byCodes(3, 32, false, true, gptq(2)), true},
		{"gptq of all rows", "mistral", map[string]any{"quant_method": "gptq", "bits": 8, "group_size": -1}, byCodes(8, 0, true, false, gptq(1)), true},
		{"gptq in odd groups", "llama", map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 16}, byCodes(4, 16, true, false, gptq(1)), false},
		{"gptq of fused matrices", "gpt_neox", map[string]any{"quant_method": "gptq", "bits": 2, "group_size": 64}, byCodes(2, 64, false, false, gptq(1)), true},
		{"gptq of blocks", "gpt_bigcode", map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32}, byCodes(4, 32, false, true, gptq(1)), true},
		{"gptq of experts", "qwen2_moe", map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32}, byCodes(4, 32, true, false, gptq(1)), true},
		{"gptq of latents", "deepseek_v3", map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32}, byCodes(4, 32, true, false, gptq(1)), true},
		{"awq", "llama", map[string]any{"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}, byCodes(4, 32, false, false, awq), true},
		{"fp8", "llama", map[string]any{"quant_method": "fp8", "weight_block_size": []int{64, 64}}, fp8, false},
		{"fp8 of latents", "deepseek_v3", map[string]any{"quant_method": "fp8", "weight_block_size": []int{64, 64}}, fp8, false},
		{"mxfp4", "gpt_oss", map[string]any{"quant_method": "mxfp4"}, mxfp4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := golden(t, c.arch)
			dir, twin := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
			if err := prequanttest.Rewrite(from, dir, twin, c.config, c.encode); err != nil {
				t.Fatal(err)
			}
			a, b := openModel(t, dir), openModel(t, twin)
			if got := packedShare(t, a); (got > 0.5) != c.packed {
				t.Errorf("%.2f of the weights are packed", got)
			}
			var ids []int32
			for i := range 24 {
				ids = append(ids, int32(i*29%100))
			}
			want := logits(t, b, ids, 2, 12)
			compareLogits(t, logits(t, a, ids, 2, 12), want, 1e-3) // a product of few rows does not round weights to fp16
			a.Decode = true
			compareLogits(t, logits(t, a, ids, 2, 12), want, 1e-5)
		})
	}
}

// golden returns the folder of a random model.
func golden(t *testing.T, name string) string {
	for _, dir := range goldens.Dirs(t, "arch") {
		if filepath.Base(dir) == name {
			return dir
		}
	}
	t.Skipf("no golden of %s", name)
	return ""
}

func openModel(t *testing.T, dir string) *model.Loader {
	t.Helper()
	l, files, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	return l
}

// packedShare returns how many of the weights of the decoder are packed.
func packedShare(t *testing.T, l *model.Loader) float64 {
	t.Helper()
	packed, all := 0, 0
	for _, m := range l.Decoder() {
		for _, s := range m.Linears {
			all += s.In * s.Out
			q, err := l.Packed(s)
			if err != nil {
				t.Fatal(err)
			}
			if q == nil {
				continue
			}
			packed += s.In * s.Out
			// The CPU keeps scales and zeros in float32.
			if n, cpu := l.PackedBytes(s, devtest.CPU(t)), devtest.CPU(t).LoadAffine(q).Bytes(); n != q.Bytes() || cpu < n*9/10 {
				t.Errorf("%s: %d bytes are planned, %d and, on the CPU, %d are taken", s.Name, n, q.Bytes(), cpu)
			}
		}
	}
	return float64(packed) / float64(all)
}

func compareLogits(t *testing.T, got, want []float32, limit float64) {
	t.Helper()
	worst := 0.0
	for i := range want {
		worst = max(worst, math.Abs(float64(got[i]-want[i])))
	}
	if len(got) != len(want) || !(worst < limit) {
		t.Errorf("logits differ by %v", worst)
	}
}

// mxfp4 quantizes stacked experts, which the source has [experts, in, out].
func mxfp4(m prequanttest.Matrix) ([]safetensors.Tensor, *safetensors.Tensor) {
	if len(m.Shape) != 3 {
		return nil, nil
	}
	experts, in, out := m.Shape[0], m.Shape[1], m.Shape[2]
	tensors, decoded := prequanttest.MXFP4(m.Name, prequanttest.Turned(m.W, experts, in, out), experts, out, in)
	return tensors, &safetensors.Tensor{Info: safetensors.Info{Name: m.Name, DType: "BF16", Shape: m.Shape}, Data: tensor.BytesOf(prequanttest.Turned(decoded, experts, out, in))}
}

// Biases of zeros, which AutoGPTQ has written of every linear, are left out; others
// are refused.
func TestNeedlessBiases(t *testing.T) {
	for _, value := range []float32{0, 1} {
		t.Run(fmt.Sprint(value), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a")
			encode := byCodes(4, 32, true, false, func(c prequanttest.Codes, module string) []safetensors.Tensor {
				bias := tensor.BytesOf(slices.Repeat([]half.F16{half.ToF16(value)}, c.Out))
				return append(c.GPTQ(module, 1), safetensors.Tensor{Info: safetensors.Info{Name: module + ".bias", DType: "F16", Shape: []int{c.Out}}, Data: bias})
			})
			config := map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32}
			if err := prequanttest.Rewrite(golden(t, "llama"), dir, t.TempDir(), config, encode); err != nil {
				t.Fatal(err)
			}
			l, files, err := model.Open(dir)
			if value != 0 {
				if err == nil || !strings.Contains(err.Error(), "down_proj.bias: element 0 is 1, and by config.json the architecture LlamaForCausalLM has no such bias") {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer files.Close()
			if slices.ContainsFunc(l.Files.Names(), func(name string) bool { return strings.HasSuffix(name, ".bias") }) {
				t.Error("biases are there")
			}
		})
	}
}
