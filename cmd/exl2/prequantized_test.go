package main

import (
	"math"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"exl2/internal/exl2"
	"exl2/internal/prequant/prequanttest"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
	"exl2/quant"
)

// prequantize METHOD FROM DIR TWIN writes the model of a folder to two others: as
// another program quantizes it, and with the weights that this stands for.
func prequantize(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: prequantize METHOD FROM DIR TWIN")
	}
	encoders := map[string]struct {
		config map[string]any
		encode func(m prequanttest.Matrix, module string) ([]safetensors.Tensor, []byte, string)
	}{
		"gptq": {map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true, "sym": true},
			func(m prequanttest.Matrix, module string) ([]safetensors.Tensor, []byte, string) {
				c := byOurGPTQ(ts, m)
				return c.GPTQ(module, 1), tensor.BytesOf(c.Weights()), "F16"
			}},
		"awq": {map[string]any{"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm", "zero_point": true},
			func(m prequanttest.Matrix, module string) ([]safetensors.Tensor, []byte, string) {
				c := prequanttest.Round(m.W, m.Shape[0], m.Shape[1], 4, 64, false, false)
				return c.AWQ(module), tensor.BytesOf(c.Weights()), "F16"
			}},
		"fp8": {map[string]any{"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": []int{128, 128}},
			func(m prequanttest.Matrix, module string) ([]safetensors.Tensor, []byte, string) {
				tensors, plain := prequanttest.FP8(module, ".weight_scale_inv", m.W, m.Shape[0], m.Shape[1], 128, 128)
				return tensors, tensor.BytesOf(plain), "BF16"
			}},
		"nvfp4": {map[string]any{"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": []string{"lm_head"}},
			func(m prequanttest.Matrix, module string) ([]safetensors.Tensor, []byte, string) {
				tensors, plain := prequanttest.OptimizerFP4.Encode(module, m.W, m.Shape[0], m.Shape[1])
				return tensors, tensor.BytesOf(plain), "BF16"
			}},
	}
	e, ok := encoders[args[0]]
	if !ok {
		ts.Fatalf("unknown method %s", args[0])
	}
	ts.Check(prequanttest.Rewrite(args[1], ts.MkAbs(args[2]), ts.MkAbs(args[3]), e.config, func(m prequanttest.Matrix) ([]safetensors.Tensor, *safetensors.Tensor) {
		module, ok := strings.CutSuffix(m.Name, ".weight")
		if !ok {
			return nil, nil
		}
		tensors, plain, dtype := e.encode(m, module)
		return tensors, &safetensors.Tensor{Info: safetensors.Info{Name: m.Name, DType: dtype, Shape: m.Shape}, Data: plain}
	}))
}

// byOurGPTQ quantizes a weight by this program's own GPTQ, on inputs like noise.
func byOurGPTQ(ts *testscript.TestScript, m prequanttest.Matrix) prequanttest.Codes {
	out, in := m.Shape[0], m.Shape[1]
	inputs := make([]float32, 2*in*in)
	for i := range inputs {
		inputs[i] = float32(math.Sin(float64(i)*float64(i)*0.1+1) * (1 + float64(i%in)/8))
	}
	q, err := quant.Quantize(quant.Weight{Out: out, In: in, Data: m.W}, inputs, quant.Options{Recipe: "1:4b_32g", Device: "cpu"})
	ts.Check(err)
	packed, err := exl2.Parse(func(suffix string) (exl2.Tensor, error) {
		for _, t := range q.Tensors {
			if t.Suffix == suffix {
				return exl2.Tensor{Suffix: t.Suffix, DType: t.DType, Shape: t.Shape, Data: t.Data}, nil
			}
		}
		return exl2.Tensor{}, nil
	})
	ts.Check(err)
	return prequanttest.FromEXL2(packed, out)
}
