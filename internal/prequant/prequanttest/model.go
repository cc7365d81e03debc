package prequanttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A Matrix is a weight of a model: rows and columns, in front of them the experts of
// a stack.
type Matrix struct {
	safetensors.Info
	W []float32
}

// Rewrite copies a model's folder to two: dir with the tensors that encode makes of
// its weights and the given quantization_config, and twin with the weights that these
// stand for. Encode returns nil for a weight that stays; it is asked for weights in
// layers that have two dimensions or three.
func Rewrite(from, dir, twin string, config any, encode func(m Matrix) (quantized []safetensors.Tensor, plain *safetensors.Tensor)) error {
	files, err := safetensors.OpenDir(from, nil)
	if err != nil {
		return err
	}
	defer files.Close()
	var a, b []safetensors.Tensor
	for _, name := range files.Names() {
		t, err := files.Get(name)
		if err != nil {
			return err
		}
		kind, float := map[string]tensor.Type{"F16": tensor.F16, "BF16": tensor.BF16, "F32": tensor.F32}[t.DType]
		if float && len(t.Shape) >= 2 && (strings.Contains(name, "layers.") || strings.Contains(name, ".h.")) && !strings.HasSuffix(name, "bias") {
			if quantized, plain := encode(Matrix{t.Info, tensor.Widen(kind, t.Data)}); quantized != nil {
				a, b = append(a, quantized...), append(b, *plain)
				continue
			}
		}
		a, b = append(a, t), append(b, t)
	}
	if err := write(from, dir, a, config); err != nil {
		return err
	}
	return write(from, twin, b, nil)
}

// write writes a model's folder: tensors, the configuration, and the other files of
// another.
func write(from, dir string, tensors []safetensors.Tensor, quantization any) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".safetensors") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		if e.Name() == "config.json" && quantization != nil {
			var c map[string]any
			if err := json.Unmarshal(data, &c); err != nil {
				return err
			}
			c["quantization_config"] = quantization
			if data, err = json.Marshal(c); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name()), data, 0o666); err != nil {
			return err
		}
	}
	return WriteTensors(filepath.Join(dir, "model.safetensors"), tensors)
}

// WriteTensors writes a file.
func WriteTensors(path string, tensors []safetensors.Tensor) error {
	var infos []safetensors.Info
	for _, t := range tensors {
		infos = append(infos, t.Info)
	}
	w, err := safetensors.Create(path, infos)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, t := range tensors {
		if err := w.Write(t.Name, t.Data); err != nil {
			return err
		}
	}
	return w.Commit()
}
