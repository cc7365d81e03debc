package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// command runs the program in this process.
func command(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code = run(append([]string{"--devices", "cpu", "--progress", "none"}, args...), io.Discard, f)
	data, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return code, string(data)
}

// A damage is done to a copy of the golden llama model.
type damage struct {
	file  string // that is changed
	spoil func(data []byte) []byte
	code  int
	names []string // what the message must name
}

// set replaces a value in config.json.
func set(key string, value any) func([]byte) []byte {
	return func(data []byte) []byte {
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			panic(err)
		}
		m[key] = value
		out, err := json.Marshal(m)
		if err != nil {
			panic(err)
		}
		return out
	}
}

// header replaces text in the header of a safetensors file by text of the same
// length.
func header(old, new string) func([]byte) []byte {
	return func(data []byte) []byte {
		if len(old) != len(new) || !bytes.Contains(data, []byte(old)) {
			panic("header: " + old)
		}
		return bytes.Replace(data, []byte(old), []byte(new), 1)
	}
}

func length(n uint64) func([]byte) []byte {
	return func(data []byte) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), data[8:]...) }
}

var damages = map[string]damage{
	"no config":               {"config.json", nil, 1, []string{"config.json"}},
	"empty config":            {"config.json", func([]byte) []byte { return nil }, 1, []string{"config.json"}},
	"config is a list":        {"config.json", func([]byte) []byte { return []byte("[1]") }, 1, []string{"config.json"}},
	"config cut short":        {"config.json", func(d []byte) []byte { return d[:len(d)/2] }, 1, []string{"config.json"}},
	"a billion layers":        {"config.json", set("num_hidden_layers", 1000000000), 1, []string{"config.json", "num_hidden_layers"}},
	"negative heads":          {"config.json", set("num_attention_heads", -4), 1, []string{"config.json", "num_attention_heads"}},
	"wide as a mountain":      {"config.json", set("hidden_size", 1<<40), 1, []string{"config.json", "hidden_size"}},
	"another hidden size":     {"config.json", set("hidden_size", 128), 1, []string{"shape", "want"}},
	"another vocabulary":      {"config.json", set("vocab_size", 129), 1, []string{"model.embed_tokens.weight", "shape"}},
	"more layers":             {"config.json", set("num_hidden_layers", 3), 1, []string{"model.layers.2"}},
	"unknown activation":      {"config.json", set("hidden_act", "mish"), 3, []string{"config.json", "hidden_act", "mish"}},
	"unknown architecture":    {"config.json", set("architectures", []string{"FooForCausalLM"}), 3, []string{"FooForCausalLM"}},
	"lines for layers":        {"config.json", set("num_hidden_layers", "1\n2\n\x1b[2J"), 1, []string{"config.json", "num_hidden_layers"}},
	"a long activation":       {"config.json", set("hidden_act", strings.Repeat("x", 1<<20)), 3, []string{"config.json", "hidden_act"}},
	"another's quantization":  {"config.json", set("quantization_config", map[string]any{"quant_method": "hqq"}), 3, []string{"config.json", "quant_method", "hqq"}},
	"no bits":                 {"config.json", set("quantization_config", map[string]any{"quant_method": "awq"}), 1, []string{"config.json", "quantization_config.bits"}},
	"depth without end":       {"config.json", func([]byte) []byte { return bytes.Repeat([]byte(`{"a":`), 1<<20) }, 1, []string{"config.json"}},
	"unknown rope":            {"config.json", set("rope_parameters", map[string]any{"rope_type": "helix"}), 3, []string{"rope_type", "helix"}},
	"rope without a factor":   {"config.json", set("rope_parameters", map[string]any{"rope_type": "linear"}), 1, []string{"factor"}},
	"no weights":              {"model.safetensors", nil, 1, []string{"safetensors"}},
	"empty weights":           {"model.safetensors", func([]byte) []byte { return nil }, 1, []string{"model.safetensors"}},
	"weights cut short":       {"model.safetensors", func(d []byte) []byte { return d[:len(d)-100] }, 1, []string{"model.safetensors"}},
	"weights too long":        {"model.safetensors", func(d []byte) []byte { return append(d, 0) }, 1, []string{"model.safetensors"}},
	"header cut short":        {"model.safetensors", func(d []byte) []byte { return d[:100] }, 1, []string{"model.safetensors"}},
	"huge header":             {"model.safetensors", length(1 << 62), 1, []string{"model.safetensors", "header"}},
	"header of no length":     {"model.safetensors", length(0), 1, []string{"model.safetensors"}},
	"unknown type":            {"model.safetensors", header(`"F16"`, `"F99"`), 1, []string{"model.safetensors", "F99"}},
	"integer weights":         {"model.safetensors", header(`"lm_head.weight":{"dtype":"F16"`, `"lm_head.weight":{"dtype":"I16"`), 3, []string{"lm_head.weight", "I16"}},
	"overlapping tensors":     {"model.safetensors", header(`"data_offsets":[16384,`, `"data_offsets":[16380,`), 1, []string{"model.safetensors"}},
	"a shape that is too big": {"model.safetensors", header(`"shape":[128,64]`, `"shape":[999,64]`), 1, []string{"model.safetensors"}},
	"offsets beyond int64":    {"model.safetensors", header(`"data_offsets":[16384,32768]`, `"data_offsets":[16384,1e999]`), 1, []string{"model.safetensors"}},
	"a shape of negatives":    {"model.safetensors", header(`"shape":[128,64]`, `"shape":[-12,-4]`), 1, []string{"model.safetensors"}},
	"a name that is missing":  {"model.safetensors", header(`"model.norm.weight"`, `"model.nurm.weight"`), 1, []string{"model.norm.weight"}},
}

// Damaged models give one line that names what is wrong, on every command, and
// leave nothing where a model is expected.
func TestDamagedModels(t *testing.T) {
	good := filepath.Join("..", "..", "testdata", "golden", "arch", "llama")
	tokens := filepath.Join(t.TempDir(), "tokens.jsonl")
	row := strings.TrimSuffix(strings.Repeat("7, ", 200), ", ")
	if err := os.WriteFile(tokens, []byte(`{"input_ids": [`+row+`]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{"config.json", "model.safetensors"} {
				data, err := os.ReadFile(filepath.Join(good, f))
				if err != nil {
					t.Fatal(err)
				}
				if f == d.file {
					if d.spoil == nil {
						continue
					}
					data = d.spoil(data)
				}
				if err := os.WriteFile(filepath.Join(dir, f), data, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(t.TempDir(), "out")
			for _, args := range [][]string{
				{"convert", "-i", dir, "-o", out, "-b", "4.0", "-c", tokens, "-r", "2", "-l", "64", "-mr", "1", "-ml", "64"},
				{"ppl", "-m", dir, "-ed", tokens, "-er", "1", "-el", "64"},
			} {
				code, stderr := command(t, args...)
				if code != d.code || strings.Count(strings.TrimSpace(stderr), "\n") > 0 || !strings.HasPrefix(stderr, "exl2: ") {
					t.Errorf("%s: exit code %d, want %d, and one line:\n%s", args[0], code, d.code, stderr)
				}
				for _, want := range d.names {
					if !strings.Contains(stderr, want) {
						t.Errorf("%s: %q is not named in: %s", args[0], want, stderr)
					}
				}
			}
			if _, err := os.Stat(filepath.Join(out, "config.json")); err == nil {
				t.Error("a model seems to be there")
			}
		})
	}
}
