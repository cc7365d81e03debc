package synth

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"exl2/internal/atomicfile"
	"exl2/internal/ordered"
	"exl2/internal/regular"
	"exl2/internal/safetensors"
)

// shardBytes is how large the files of a random model become.
const shardBytes = 4 << 30

// tokenizerFiles are what a tokenizer may consist of.
var tokenizerFiles = []string{"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"}

// Write writes the model to a folder, with the tokenizer of another folder if
// that is not "". step is called with the name of every tensor written.
func (m *Model) Write(dir, tokenizer string, step func(name string)) error {
	present, err := regular.WithSuffix(dir, ".safetensors")
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, "config.json")); err == nil || len(present) > 0 {
		return fmt.Errorf("%s holds a model already: give another folder", dir)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if tokenizer != "" {
		if err := copyTokenizer(dir, tokenizer); err != nil {
			return err
		}
	}
	base := "model"
	if m.bits != 0 {
		base = "output"
	}
	shards, err := safetensors.Plan(base, m.Infos(), shardBytes)
	if err != nil {
		return err
	}
	for _, s := range shards {
		if err := m.shard(filepath.Join(dir, s.Name), s, step); err != nil {
			return err
		}
	}
	return m.config(dir)
}

func (m *Model) shard(path string, s safetensors.Shard, step func(name string)) error {
	w, err := safetensors.Create(path, s.Tensors)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, i := range s.Tensors {
		t, err := m.Get(i.Name)
		if err != nil {
			return err
		}
		if err := w.Write(i.Name, t.Data); err != nil {
			return err
		}
		step(i.Name)
	}
	return w.Commit()
}

func copyTokenizer(to, from string) error {
	copied := false
	for _, name := range tokenizerFiles {
		data, err := regular.Read(filepath.Join(from, name), 1<<28)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := atomicfile.Write(filepath.Join(to, name), data); err != nil {
			return err
		}
		copied = true
	}
	if !copied {
		return fmt.Errorf("%s has none of the files of a tokenizer: %v", from, tokenizerFiles)
	}
	return nil
}

// config writes config.json, signed if the model is EXL2.
func (m *Model) config(dir string) error {
	c := append(ordered.Object(nil), m.Shape.Config...)
	if m.bits != 0 {
		c.Set("quantization_config", ordered.Object{
			{Name: "quant_method", Value: "exl2"}, {Name: "version", Value: "0.3.2"},
			{Name: "bits", Value: m.bits}, {Name: "head_bits", Value: 6},
		})
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, "config.json"), append(data, '\n'))
}
