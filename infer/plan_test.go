package infer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/device/devtest"
	"exl2/internal/devices"
	"exl2/internal/goldens"
	"exl2/internal/model"
	"exl2/internal/prequant/prequanttest"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// Loading takes of every device what the plan says, and closing gives it back.
func TestPlanEqualsLoading(t *testing.T) {
	dirs := append(goldens.Dirs(t, "exl2"), filepath.Join("..", "testdata", "models", "tiny"))
	for _, dir := range append(dirs, goldens.Dirs(t, "arch")...) {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			for _, n := range []int{1, 2} {
				comparePlan(t, dir, n, Options{Positions: 300, Sequences: 3})
			}
		})
	}
}

// Nor is what others have packed, or what is decoded of it, forgotten.
func TestPlanOfPrequantized(t *testing.T) {
	for _, arch := range []string{"llama", "qwen2_moe", "deepseek_v3"} {
		for _, group := range []int{32, 16} { // which is decoded
			dir := filepath.Join(t.TempDir(), "a")
			config := map[string]any{"quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": true}
			err := prequanttest.Rewrite(filepath.Join("..", "testdata", "golden", "arch", arch), dir, t.TempDir(), config, func(m prequanttest.Matrix) ([]safetensors.Tensor, *safetensors.Tensor) {
				module, ok := strings.CutSuffix(m.Name, ".weight")
				if !ok || len(m.Shape) != 2 || m.Shape[0]%8 != 0 || m.Shape[1]%32 != 0 {
					return nil, nil
				}
				c := prequanttest.Round(m.W, m.Shape[0], m.Shape[1], 4, group, true, true)
				return c.GPTQ(module, 1), &safetensors.Tensor{Info: safetensors.Info{Name: m.Name, DType: "F16", Shape: m.Shape}, Data: tensor.BytesOf(c.Weights())}
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("%s in groups of %d", arch, group), func(t *testing.T) {
				comparePlan(t, dir, 1, Options{Positions: 300, Sequences: 3})
			})
		}
	}
}

func comparePlan(t *testing.T, dir string, n int, o Options) {
	l, files, err := model.Open(dir)
	if errors.Is(err, arch.ErrUnsupported) || errors.Is(err, os.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if l.Spec.Learned > 0 {
		o.Positions = min(o.Positions, l.Spec.Learned)
	}
	var counters []*devtest.Counter
	var list devices.List
	for range n {
		c := devtest.Counting(devtest.CPU(t))
		counters, list = append(counters, c), append(list, c)
	}
	parts := plan(l, list, o)
	e, err := open(dir, list, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range parts {
		more := 0
		if l.Quantized() { // the CPU decodes its scales
			more = p.Weights * 3 / 10
		}
		if l.Scheme != nil { // and keeps codes of 128 rows together, whether there are so many or not
			more = p.Weights
		}
		if got := counters[i].Bytes(); got < p.Total() || got > p.Total()+more {
			t.Errorf("device %d of %d: %d bytes are allocated, the plan says %d and at most %d more: %+v", i, n, got, p.Total(), more, p)
		}
	}
	if _, err := e.next(t.Context(), 0, 0, someIDs(40, e.Vocab())); err != nil {
		t.Error(err)
	}
	e.Close()
	for i, c := range counters {
		if live := c.Live(); len(live) > 0 || c.Faults() != nil {
			t.Errorf("device %d of %d: not freed: %q; %v", i, n, live, c.Faults())
		}
	}
}
