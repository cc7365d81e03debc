package prequant_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/half"
	"exl2/internal/prequant"
	"exl2/internal/prequant/prequanttest"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// source is tensors in memory.
type source map[string]safetensors.Tensor

func sourceOf(lists ...[]safetensors.Tensor) source {
	s := source{}
	for _, t := range slices.Concat(lists...) {
		s[t.Name] = t
	}
	return s
}

func (s source) Names() []string      { return slices.Sorted(maps.Keys(s)) }
func (s source) Has(name string) bool { _, ok := s[name]; return ok }

func (s source) Info(name string) (safetensors.Info, bool) {
	t, ok := s[name]
	return t.Info, ok
}

func (s source) Get(name string) (safetensors.Tensor, error) {
	t, ok := s[name]
	if !ok {
		return t, fmt.Errorf("no tensor %s", name)
	}
	return t, nil
}

// schemeOf reads the quantization_config of a config.json.
func schemeOf(t testing.TB, quantization string) (*prequant.Scheme, error) {
	t.Helper()
	c, err := arch.ParseConfig("config.json", []byte(`{"quantization_config": `+quantization+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return prequant.Read(t.TempDir(), c)
}

// show returns tensors as the given configuration has them.
func show(t testing.TB, quantization string, s source) *prequant.Files {
	t.Helper()
	scheme, err := schemeOf(t, quantization)
	if err != nil {
		t.Fatal(err)
	}
	f, err := prequant.Show(scheme, s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wave is numbers of both signs around a size.
func wave(n int, size float64) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(size * math.Sin(float64(i*i)*0.37+0.1))
	}
	return w
}

// Weights are what their codes, scales and zeros stand for, to the bit.
func TestCodes(t *testing.T) {
	const out, in = 64, 96
	for _, bits := range []int{2, 3, 4, 8} {
		for _, group := range []int{0, 32, 64} {
			for i := range 4 {
				symmetric, ordered := i%2 == 1, i > 1
				c := prequanttest.Round(wave(out*in, 0.1), out, in, bits, group, symmetric, ordered)
				size := group
				if group == 0 {
					size = -1
				}
				same := func(name, config string, tensors []safetensors.Tensor) {
					t.Run(fmt.Sprintf("%s/%db_%dg/symmetric=%v/ordered=%v", name, bits, group, symmetric, ordered), func(t *testing.T) {
						compareWeight(t, show(t, config, sourceOf(tensors)), c)
					})
				}
				gptq := fmt.Sprintf(`{"quant_method": "gptq", "bits": %d, "group_size": %d, "desc_act": %v, "sym": %v`, bits, size, ordered, symmetric)
				same("gptq", gptq+`}`, c.GPTQ("m", 1))
				same("gptq_v2", gptq+`, "checkpoint_format": "gptq_v2"}`, c.GPTQ("m", 2))
				same("gptqmodel", gptq+`, "meta": {"quantizer": ["gptqmodel:4.1.0"]}}`, c.GPTQModel("m"))
				if symmetric { // whoever has written it
					same("unsigned", gptq+`}`, c.GPTQModel("m"))
				}
				if !ordered || group == 0 {
					same("without g_idx", gptq+`}`, c.GPTQ("m", 1)[:3])
				}
				if !ordered {
					zeros := c.GPTQ("m", 1)
					zeros[3].Data = make([]byte, len(zeros[3].Data))
					same("g_idx of zeros", gptq+`}`, zeros)
				}
				if !ordered {
					same("autoround", fmt.Sprintf(`{"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq", "bits": %d, "group_size": %d, "sym": %v}`, bits, size, symmetric), c.GPTQ("m", 1))
				}
				if bits == 4 && !ordered {
					same("awq", fmt.Sprintf(`{"quant_method": "awq", "bits": 4, "group_size": %d, "version": "gemm", "zero_point": true}`, size), c.AWQ("m"))
				}
				if (bits == 4 || bits == 8) && in%max(group, 1) == 0 {
					config := fmt.Sprintf(`{"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"weights": {"num_bits": %d, "type": "int"}}}}`, bits)
					same("compressed", config, c.PackQuantized("m", symmetric, ordered))
				}
			}
		}
	}
}

func compareWeight(t *testing.T, f *prequant.Files, c prequanttest.Codes) {
	t.Helper()
	if names := f.Names(); !slices.Equal(names, []string{"m.weight"}) {
		t.Errorf("tensors %v", names)
	}
	w, err := f.Get("m.weight")
	if err != nil {
		t.Fatal(err)
	}
	if want := c.Weights(); w.DType != "F16" || !slices.Equal(w.Shape, []int{c.Out, c.In}) || !bytes.Equal(w.Data, tensor.BytesOf(want)) {
		t.Errorf("%s %v: other weights", w.DType, w.Shape)
	}
	m, err := f.Matrix("m.weight")
	if err != nil {
		t.Fatal(err)
	}
	if outline, err := f.Outline("m.weight"); err != nil || outline.Bytes() != m.Bytes() || outline.Fusible() != m.Fusible() {
		t.Errorf("outline: %v, %d bytes, want %d", err, outline.Bytes(), m.Bytes())
	}
	reversed := make([]int, m.Out)
	for i := range reversed {
		reversed[i] = m.Out - 1 - i
	}
	back := m.Columns(reversed).Columns(reversed)
	if !slices.Equal(back.Weights(), m.Weights()) {
		t.Error("columns in another order, and back, are others")
	}
}

// FP8 weights are rounded to BF16, whatever the blocks.
func TestFP8(t *testing.T) {
	const out, in = 200, 160
	w := wave(out*in, 0.1)
	for _, c := range []struct {
		name, factor, config string
		rows, cols           int
	}{
		{"blocks of 128", ".weight_scale_inv", `{"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}`, 128, 128},
		{"one factor", ".weight_scale_inv", `{"quant_method": "fp8", "activation_scheme": "static"}`, out, in},
		{"a factor each output", ".weight_scale", `{"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}}`, 1, in},
		{"fbgemm", ".weight_scale", `{"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}`, 1, in},
	} {
		t.Run(c.name, func(t *testing.T) {
			tensors, want := prequanttest.FP8("m", c.factor, w, out, in, c.rows, c.cols)
			scale := safetensors.Tensor{Info: safetensors.Info{Name: "m.input_scale", DType: "F32", Shape: []int{1}}, Data: make([]byte, 4)}
			f := show(t, c.config, sourceOf(tensors, []safetensors.Tensor{scale}))
			got, err := f.Get("m.weight")
			if err != nil {
				t.Fatal(err)
			}
			if got.DType != "BF16" || !bytes.Equal(got.Data, tensor.BytesOf(want)) {
				t.Errorf("%s: other weights", got.DType)
			}
			if names := f.Names(); !slices.Equal(names, []string{"m.weight"}) {
				t.Errorf("tensors %v", names)
			}
		})
	}
}

// Numbers of four bits, and bytes with powers of two, by the program that writes them.
func TestFP4(t *testing.T) {
	const out, in = 24, 96
	w := wave(out*in, 0.1)
	compressed := func(format string, bits, group int) string {
		return fmt.Sprintf(`{"quant_method": "compressed-tensors", "format": %q, "config_groups": {"group_0": {"weights": {"num_bits": %d, "type": "float", "group_size": %d}}}}`, format, bits, group)
	}
	forms := map[string]struct {
		config, form string
		encode       func(string, []float32, int, int) ([]safetensors.Tensor, []half.BF16)
	}{
		"nvfp4":           {compressed("nvfp4-pack-quantized", 4, 16), "NVFP4", prequanttest.NVFP4.Encode},
		"mxfp4":           {compressed("mxfp4-pack-quantized", 4, 32), "MXFP4", prequanttest.PackedMXFP4.Encode},
		"mxfp8":           {compressed("mxfp8-quantized", 8, 32), "F8_E4M3 1x32", prequanttest.MXFP8},
		"modelopt":        {`{"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head", "mtp*"]}`, "NVFP4", prequanttest.OptimizerFP4.Encode},
		"modelopt, mxfp8": {`{"quant_method": "modelopt", "quant_algo": "MXFP8"}`, "F8_E4M3 1x32", prequanttest.MXFP8},
		"modelopt, mixed": {`{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "FP8"}, "m": {"quant_algo": "NVFP4"}}}`, "NVFP4", prequanttest.OptimizerFP4.Encode},
	}
	for name, c := range forms {
		t.Run(name, func(t *testing.T) {
			tensors, want := c.encode("m", w, out, in)
			rest := []safetensors.Tensor{{Info: safetensors.Info{Name: "m.input_scale", DType: "F32", Shape: []int{}}, Data: make([]byte, 4)},
				{Info: safetensors.Info{Name: "m.input_global_scale", DType: "F32", Shape: []int{1}}, Data: make([]byte, 4)}}
			f := show(t, c.config, sourceOf(tensors, rest))
			got, err := f.Get("m.weight")
			if err != nil {
				t.Fatal(err)
			}
			if got.DType != "BF16" || !slices.Equal(got.Shape, []int{out, in}) || !bytes.Equal(got.Data, tensor.BytesOf(want)) {
				t.Errorf("%s %v: other weights", got.DType, got.Shape)
			}
			if names := f.Names(); !slices.Equal(names, []string{"m.weight"}) {
				t.Errorf("tensors %v", names)
			}
			if _, form := f.Stored("m.weight"); form != c.form {
				t.Errorf("form %q, want %q", form, c.form)
			}
		})
	}
}

// Model Optimizer's blocks have a dimension of one behind each of theirs.
func TestOptimizerBlocks(t *testing.T) {
	const out, in = 200, 160
	tensors, want := prequanttest.FP8("m", ".weight_scale", wave(out*in, 0.1), out, in, 128, 128)
	for _, shape := range [][]int{{2, 2}, {2, 1, 2, 1}} {
		tensors[1].Shape = shape
		got, err := show(t, `{"quant_method": "modelopt", "quant_algo": "fp8_pb_wo"}`, sourceOf(tensors)).Get("m.weight")
		if err != nil || !bytes.Equal(got.Data, tensor.BytesOf(want)) {
			t.Errorf("%v: other weights, %v", shape, err)
		}
	}
}

// Every byte of float8_e4m3fn, by its definition.
func TestEveryE4M3(t *testing.T) {
	data := make([]byte, 256)
	for i := range data {
		if data[i] = byte(i); i&127 == 127 {
			data[i] = 0
		}
	}
	w := safetensors.Tensor{Info: safetensors.Info{Name: "m.weight", DType: "F8_E4M3", Shape: []int{2, 128}}, Data: data}
	one := safetensors.Tensor{Info: safetensors.Info{Name: "m.weight_scale", DType: "F32", Shape: []int{}}, Data: tensor.BytesOf([]float32{1})}
	got, err := show(t, `{"quant_method": "fp8"}`, sourceOf([]safetensors.Tensor{w, one})).Get("m.weight")
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range tensor.View[half.BF16](got.Data) {
		if want := prequanttest.E4M3(data[i]); float64(v.Float32()) != want {
			t.Errorf("%#x is %v, want %v", data[i], v.Float32(), want)
		}
	}
}

// MXFP4's stacked experts come whole or one by one.
func TestMXFP4(t *testing.T) {
	const experts, out, in = 3, 40, 96
	tensors, want := prequanttest.MXFP4("e.gate_up_proj", wave(experts*out*in, 3), experts, out, in)
	f := show(t, `{"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}`, sourceOf(tensors))
	got, err := f.Get("e.gate_up_proj")
	if err != nil {
		t.Fatal(err)
	}
	if got.DType != "BF16" || !slices.Equal(got.Shape, []int{experts, out, in}) || !bytes.Equal(got.Data, tensor.BytesOf(want)) {
		t.Errorf("%s %v: other weights", got.DType, got.Shape)
	}
	one, ok, err := f.Expert("e.gate_up_proj", 1)
	if err != nil || !ok || !bytes.Equal(one.Data, tensor.BytesOf(want[out*in:2*out*in])) {
		t.Errorf("one expert: %v, %v", ok, err)
	}
}

// What does not fit is refused by name.
func TestRefusedTensors(t *testing.T) {
	const gptq4 = `{"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true}`
	c := prequanttest.Round(wave(64*96, 1), 64, 96, 4, 32, true, true)
	gptq := func(change func(s source)) source {
		s := sourceOf(c.GPTQ("m", 1))
		for name, x := range s {
			x.Data = slices.Clone(x.Data)
			s[name] = x
		}
		change(s)
		return s
	}
	shaped := func(name string, shape ...int) func(source) {
		return func(s source) {
			x := s[name]
			x.Shape, x.Data = shape, make([]byte, 4*slices.Max(append(shape, 1))*64)
			s[name] = x
		}
	}
	fp8, _ := prequanttest.FP8("m", ".weight_scale_inv", wave(64*96, 1), 64, 96, 64, 64)
	mx, _ := prequanttest.MXFP4("e", wave(2*32*32, 1), 2, 32, 32)
	const nvfp4 = `{"quant_method": "modelopt", "quant_algo": "NVFP4"}`
	fp4, _ := prequanttest.OptimizerFP4.Encode("m", wave(64*96, 1), 64, 96)
	wider := prequanttest.OptimizerFP4
	wider.Group = 32
	wide, _ := wider.Encode("m", wave(64*96, 1), 64, 96)
	mx8, _ := prequanttest.MXFP8("m", wave(64*96, 1), 64, 96)
	damaged := sourceOf(fp4)
	scale := damaged["m.weight_scale"]
	scale.Data = slices.Clone(scale.Data)
	scale.Data[6] = 0x7f
	damaged["m.weight_scale"] = scale
	for name, x := range map[string]struct {
		config string
		source source
		want   string
	}{
		"qzeros":                {gptq4, gptq(shaped("m.qzeros", 3, 9)), "m.qzeros is I32 [3 9], want I32 [3 8]"},
		"scales":                {gptq4, gptq(shaped("m.scales", 3, 60)), "m.scales is F16 [3 60], want [* 64]"},
		"g_idx missing":         {gptq4, gptq(func(s source) { delete(s, "m.g_idx") }), "m.g_idx is missing, and desc_act"},
		"g_idx of zeros":        {gptq4, gptq(func(s source) { clear(s["m.g_idx"].Data) }), "m.g_idx is all zero, and desc_act"},
		"g_idx short":           {gptq4, gptq(shaped("m.g_idx", 90)), "m.g_idx is I32 [90], want I32 [96]"},
		"g_idx too large":       {gptq4, gptq(func(s source) { s["m.g_idx"].Data[4*7] = 3 }), "m.g_idx: row 7 is of group 3, of 3"},
		"g_idx negative":        {gptq4, gptq(func(s source) { s["m.g_idx"].Data[4*7+3] = 128 }), "m.g_idx: row 7 is of group -214"},
		"scale NaN":             {gptq4, gptq(func(s source) { copy(s["m.scales"].Data[130:], []byte{0, 0x7e}) }), "m: the scale of group 1, column 1 is NaN"},
		"qzeros missing":        {gptq4, gptq(func(s source) { delete(s, "m.qzeros") }), "m.qzeros is missing"},
		"qweight":               {gptq4, gptq(shaped("m.qweight", 12, 60)), "m.qweight is [12 60], which is no matrix of 4 bits"},
		"groups":                {`{"quant_method": "gptq", "bits": 4, "group_size": 64}`, gptq(func(s source) { delete(s, "m.g_idx") }), "m.scales: 3 groups of 96 rows, want 2 of 64"},
		"group_size":            {`{"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": true}`, gptq(func(source) {}), "m.scales: 3 groups of 96 rows, want 2 of 64"},
		"group_size of a third": {`{"quant_method": "gptq", "bits": 4, "group_size": 16}`, gptq(func(source) {}), "m.scales: 3 groups of 96 rows, want 6 of 16"},
		"groups of all":         {`{"quant_method": "gptq", "bits": 4, "group_size": -1}`, gptq(func(source) {}), "m.scales: 3 groups of 96 rows, want 1 of 96"},
		"g_idx crowded":         {gptq4, gptq(func(s source) { copy(s["m.g_idx"].Data[4:8], s["m.g_idx"].Data) }), "m.g_idx: group 0 has more rows than the 32 that the configuration says"},
		"nothing":               {gptq4, sourceOf(), "the configuration says GPTQ, 4 bits in groups of 32, rows in order of activations, and no tensor is quantized"},
		"listed as plain":       {`{"quant_method": "gptq", "bits": 4, "modules_to_not_convert": ["m"]}`, gptq(func(source) {}), "m.qweight is quantized, and the configuration lists m among the modules that are not"},
		"awq shape":             {`{"quant_method": "awq", "bits": 4, "group_size": 32}`, gptq(func(source) {}), "m.qweight is [12 64], which is no matrix of 4 bits"},
		"fp8 blocks":            {`{"quant_method": "fp8", "weight_block_size": [128, 128]}`, sourceOf(fp8), "m.weight_scale_inv is [1 2] for a weight [64 96] in blocks of [128 128]"},
		"fp8 no factor":         {`{"quant_method": "fp8"}`, sourceOf(fp8[:1]), "m.weight is quantized, and neither weight_scale_inv nor weight_scale is there"},
		"fp8 NaN": {`{"quant_method": "fp8", "weight_block_size": [64, 64]}`, func() source {
			s := sourceOf(fp8)
			s["m.weight"].Data[100] = 0xff
			return s
		}(), "m.weight: element 100 is NaN"},
		"nvfp4 factor":    {nvfp4, sourceOf(fp4[:2]), "m.weight_scale is F8_E4M3, and m.weight_scale_2 is there: false; NVFP4 has F8_E4M3 with it"},
		"nvfp4 scales":    {nvfp4, sourceOf(fp4[:1]), "m.weight_scale is missing"},
		"nvfp4 groups":    {nvfp4, sourceOf(wide), "m.weight_scale is [64 3] for 96 inputs in groups of 16"},
		"nvfp4 of inputs": {nvfp4, sourceOf(fp4, []safetensors.Tensor{{Info: safetensors.Info{Name: "m.pre_quant_scale", DType: "F32", Shape: []int{96}}, Data: make([]byte, 96*4)}}), "m.pre_quant_scale is not read; use the model's original"},
		"nvfp4 NaN":       {nvfp4, damaged, "m.weight: element 96 is NaN or infinite"},
		"mxfp8 groups":    {`{"quant_method": "modelopt", "quant_algo": "FP8"}`, sourceOf(mx8), "m.weight_scale is [64 3] for a weight [64 96] in blocks of [0 0]"},
		"mxfp4 scales":    {`{"quant_method": "mxfp4"}`, sourceOf(mx[:1]), "e_scales is missing"},
		"mxfp4 NaN": {`{"quant_method": "mxfp4"}`, func() source {
			s := sourceOf(mx)
			s["e_scales"].Data[5] = 255
			return s
		}(), "e_scales: element 5"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := schemeOf(t, x.config)
			if err != nil {
				t.Fatal(err)
			}
			f, err := prequant.Show(scheme, x.source)
			if err == nil {
				_, err = f.Get(f.Names()[0])
			}
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
}

// Without a scheme quantized tensors are refused.
func TestUnexplained(t *testing.T) {
	c := prequanttest.Round(wave(64*96, 1), 64, 96, 4, 32, true, true)
	fp8, _ := prequanttest.FP8("m", ".weight_scale_inv", wave(64*96, 1), 64, 96, 64, 64)
	mx, _ := prequanttest.MXFP4("e", wave(2*32*32, 1), 2, 32, 32)
	for want, s := range map[string]source{
		"e_blocks is quantized (U8), and config.json":   sourceOf(mx),
		"m.qweight is quantized, as by GPTQ or AWQ":     sourceOf(c.GPTQ("m", 1)),
		"m.weight_packed is quantized (I32)":            sourceOf(c.PackQuantized("m", true, true)),
		"m.weight is quantized (F8_E4M3), and config.j": sourceOf(fp8),
	} {
		if _, err := prequant.Show(nil, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Formats that are not read are told by their tensors, whatever the configuration says.
func TestForeign(t *testing.T) {
	for name, x := range map[string][2]string{
		"m.weight":                               {"U32", "m.weight is of MLX, which is not read; use the model's original"},
		"n.weight":                               {"F8_E5M2", "n.weight is of FP8 as e5m2"},
		"m.W_q":                                  {"U8", "m.W_q is of HQQ"},
		"m.weight._data":                         {"I8", "m.weight._data is of quanto"},
		"m.SCB":                                  {"F32", "m.SCB is of bitsandbytes"},
		"m.weight.quant_state.bitsandbytes__nf4": {"U8", "is of bitsandbytes"},
		"m.trellis":                              {"I16", "m.trellis is of EXL3"},
		"m.codebooks":                            {"F16", "m.codebooks is of AQLM"},
	} {
		s := sourceOf([]safetensors.Tensor{{Info: safetensors.Info{Name: name, DType: x[0], Shape: []int{0}}}, {Info: safetensors.Info{Name: "a.weight", DType: "U8", Shape: []int{0}}}})
		for _, scheme := range []*prequant.Scheme{nil, {Method: prequant.FP8}} {
			if _, err := prequant.Show(scheme, s); !errors.Is(err, arch.ErrUnsupported) || !strings.Contains(err.Error(), x[1]) {
				t.Errorf("%v, want %q", err, x[1])
			}
		}
	}
}

// Stacked matrices of FP8 are refused by name.
func TestStackedFP8(t *testing.T) {
	s := sourceOf([]safetensors.Tensor{{Info: safetensors.Info{Name: "m.experts.down_proj", DType: "F8_E4M3", Shape: []int{2, 3, 0}}}})
	if _, err := prequant.Show(&prequant.Scheme{Method: prequant.FP8}, s); !errors.Is(err, arch.ErrUnsupported) || !strings.Contains(err.Error(), "m.experts.down_proj is several matrices as FP8") {
		t.Error(err)
	}
}

// Schemes, and what is no scheme.
func TestRead(t *testing.T) {
	for config, want := range map[string]string{
		`{"quant_method": "exl2", "bits": 4.0}`: "<nil>",
		`{"bits": 4, "group_size": 128, "desc_act": false, "sym": true, "quant_method": "gptq", "checkpoint_format": "gptq"}`:                                              "GPTQ, 4 bits in groups of 128",
		`{"bits": 3, "group_size": -1, "desc_act": true, "quant_method": "gptq"}`:                                                                                          "GPTQ, 3 bits, rows in order of activations",
		`{"bits": 4, "group_size": 128, "quant_method": "awq", "version": "GEMM", "zero_point": true}`:                                                                     "AWQ, 4 bits in groups of 128",
		`{"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}`:                                                          "FP8",
		`{"modules_to_not_convert": ["model.layers.*.self_attn"], "quant_method": "mxfp4"}`:                                                                                "MXFP4",
		`{"config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 128, "type": "int"}}}, "format": "pack-quantized", "quant_method": "compressed-tensors"}`: "compressed-tensors, 4 bits in groups of 128",

		`null`:   "<nil>",
		`{}`:     "<nil>",
		`"gptq"`: `config.json: quantization_config: gptq is not an object`,
		`4`:      `config.json: quantization_config: 4 is not an object`,

		`{"bits": 4}`:                                          `quant_method: unsupported: it is missing`,
		`{"quant_method": "bitsandbytes"}`:                     `config.json: quantization_config.quant_method: unsupported: "bitsandbytes" (known: auto-round, awq, compressed-tensors, exl2, fp8, fbgemm_fp8, gptq, modelopt, mxfp4); use the model's original`,
		`{"bits": 4, "group_size": 64}`:                        `quant_method: unsupported: "mlx" (known`,
		`{"bits": 4, "group_size": 64, "mode": "affine"}`:      `quant_method: unsupported: "mlx" (known`,
		`{"load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}`: `quant_method: unsupported: "bitsandbytes" (known`,
		`{"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": true, "data_type": "int", "packing_format": "auto_round:auto_gptq"}`: "GPTQ, 4 bits in groups of 128",
		`{"quant_method": "auto-round", "bits": 2, "group_size": 64, "sym": false}`:                                                               "GPTQ, 2 bits in groups of 64",
		`{"quant_method": "intel/auto-round", "bits": 4, "group_size": 128, "backend": "auto_round:gptq:exllamav2"}`:                              "GPTQ, 4 bits in groups of 128",
		`{"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": false, "packing_format": "auto_round:auto_awq"}`:                     "AWQ, 4 bits in groups of 128",
		`{"quant_method": "auto-round", "bits": 4, "packing_format": "auto_round:llm_compressor"}`:                                                `packing_format: unsupported: "auto_round:llm_compressor" (known: auto_round:auto_gptq, auto_round:auto_awq)`,
		`{"quant_method": "intel/auto-round", "bits": 4, "backend": "auto_round:exllamav2"}`:                                                      `backend: unsupported: "auto_round:exllamav2"`,
		`{"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp"}`:                                                                         `data_type: unsupported: "mx_fp", want "int"`,
		`{"quant_method": "hqq"}`:                                                                                       `"hqq" (known`,
		`{"quant_method": "gptq", "bits": 5}`:                                                                           `bits: unsupported: 5, want one of [2 3 4 8]`,
		`{"quant_method": "gptq"}`:                                                                                      `bits: missing`,
		`{"quant_method": "gptq", "bits": "4"}`:                                                                         `bits: 4 is not a number`,
		`{"quant_method": "gptq", "bits": 4, "group_size": 0}`:                                                          `group_size: unsupported: 0, want a positive number`,
		`{"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}`:                                            `checkpoint_format: unsupported: "marlin" (known: gptq, gptq_v2)`,
		`{"quant_method": "gptq", "bits": 4, "is_marlin_format": true}`:                                                 `is_marlin_format: unsupported`,
		`{"quant_method": "gptq", "bits": 4, "pack_dtype": "int16"}`:                                                    `pack_dtype: unsupported: "int16"`,
		`{"quant_method": "awq", "bits": 4, "version": "gemv"}`:                                                         `version: unsupported: "gemv", want "gemm"`,
		`{"quant_method": "awq", "bits": 3}`:                                                                            `bits: unsupported: 3, want 4`,
		`{"quant_method": "awq", "bits": 4, "zero_point": false}`:                                                       `zero_point: unsupported`,
		`{"quant_method": "fp8", "fmt": "e5m2"}`:                                                                        `fmt: unsupported: "e5m2"`,
		`{"quant_method": "fp8", "weight_block_size": [128]}`:                                                           `weight_block_size: unsupported: [128], want two sizes`,
		`{"quant_method": "compressed-tensors", "format": "marlin-24"}`:                                                 `format: unsupported: "marlin-24" (known: pack-quantized`,
		`{"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 6, "type": "float"}}}}`: `config_groups.a.weights.num_bits: unsupported: 6 bits of type "float"`,
		`{"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}`:                                         "Model Optimizer, 4 bits in groups of 16",
		`{"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}`:                               "Model Optimizer, 8 bits",
		`{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "FP8"}, "b": {"quant_algo": "W4A16_NVFP4"}}}`: "Model Optimizer, 4 bits",
		`{"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}`:                                                                `quant_algo: unsupported: "W4A8_AWQ" (known: FP8, FP8_PB_WO, FP8_PER_CHANNEL_PER_TOKEN, MXFP8, NVFP4, W4A16_NVFP4, and MIXED_PRECISION`,
		`{"quant_method": "modelopt", "quant_algo": null}`:                                                                      `quant_algo: unsupported: ""`,
		`{"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32}`:                                                 `group_size: unsupported: 32, want 16`,
		`{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "NVFP4_AWQ"}}}`: `quantized_layers.a.quant_algo: unsupported: "NVFP4_AWQ"`,
		`{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": 5}}`:                           `5 is not an object`,
		`{"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}}`:                            `sparsity_config.format: unsupported`,
	} {
		s, err := schemeOf(t, config)
		got := fmt.Sprint(s)
		if err != nil {
			got = err.Error()
		} else if s == nil {
			got = "<nil>"
		}
		if !strings.Contains(got, want) || err == nil && got != want {
			t.Errorf("%s:\n%s, want %s", config, got, want)
		}
	}
}

// The first versions of compressed-tensors had a field of their own.
func TestCompressionConfig(t *testing.T) {
	c, err := arch.ParseConfig("config.json", []byte(`{"compression_config": {"quant_method": "compressed-tensors", "format": "naive-quantized", "quantization_status": "frozen", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "group_size": null, "strategy": "tensor"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := prequant.Read(t.TempDir(), c); err != nil || s.String() != "compressed-tensors, 8 bits" {
		t.Errorf("%v, %v", s, err)
	}
}

// Of models without a quantization_config, quantizers' own files say how.
func TestBeside(t *testing.T) {
	for name, x := range map[string][2]string{
		"quantize_config.json": {`{"bits": 4, "group_size": 128, "desc_act": true, "model_file_base_name": "model"}`, "GPTQ, 4 bits in groups of 128, rows in order of activations"},
		"quant_config.json":    {`{"zero_point": true, "q_group_size": 64, "w_bit": 4, "version": "GEMM"}`, "AWQ, 4 bits in groups of 64"},
		"hf_quant_config.json": {`{"producer": {"name": "modelopt", "version": "0.35.1"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}}`, "Model Optimizer, 4 bits in groups of 16"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(x[0]), 0o666); err != nil {
			t.Fatal(err)
		}
		c, err := arch.ParseConfig("config.json", []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if s, err := prequant.Read(dir, c); err != nil || s.String() != x[1] {
			t.Errorf("%s: %v, %v, want %s", name, s, err, x[1])
		}
	}
}

// Whatever a configuration says, reading it and what it makes of tensors ends in
// an error or in weights of the right size.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"bits": 4, "group_size": 32, "desc_act": true, "quant_method": "gptq", "dynamic": {"+:a": {"bits": 8}}}`,
		`{"bits": 4, "group_size": 32, "quant_method": "awq", "version": "GEMM"}`,
		`{"quant_method": "fp8", "weight_block_size": [128, 128], "ignored_layers": ["x"]}`,
		`{"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4}}}, "ignore": ["re:.*gate"]}`,
		`{"quant_method": "mxfp4", "modules_to_not_convert": [""]}`,
		`{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "FP8"}, "b": {"quant_algo": "NVFP4"}}}`,
		`{"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"g": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}}}`,
	} {
		f.Add(seed)
	}
	c := prequanttest.Round(wave(64*96, 1), 64, 96, 4, 32, true, true)
	fp8, _ := prequanttest.FP8("f", ".weight_scale", wave(64*96, 1), 64, 96, 64, 64)
	mx, _ := prequanttest.MXFP4("e", wave(2*32*32, 1), 2, 32, 32)
	nv, _ := prequanttest.NVFP4.Encode("n", wave(64*96, 1), 64, 96)
	optimizer, _ := prequanttest.OptimizerFP4.Encode("o", wave(64*96, 1), 64, 96)
	all := sourceOf(c.GPTQ("m", 1), c.PackQuantized("p", false, true), fp8, mx, nv, optimizer)
	f.Fuzz(func(t *testing.T, config string) {
		if !json.Valid([]byte(config)) {
			return
		}
		p, err := arch.ParseConfig("config.json", []byte(`{"quantization_config": `+config+`}`))
		if err != nil {
			return
		}
		s, err := prequant.Read(os.DevNull, p)
		if err != nil || s == nil {
			return
		}
		files, err := prequant.Show(s, all)
		if err != nil {
			return
		}
		for _, name := range files.Names() {
			w, err := files.Get(name)
			if n, _ := w.Bytes(); err == nil && int(n) != len(w.Data) {
				t.Errorf("%s: %d bytes, want %d", name, len(w.Data), n)
			}
		}
	})
}
