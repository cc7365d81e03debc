package synth

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"exl2/internal/atomicfile"
	"exl2/internal/ordered"
	"exl2/internal/regular"
	"exl2/internal/safetensors"
)

// shardBytes is how large the files of a random model become.
const shardBytes = 4 << 30

// tokenizerFiles are what a tokenizer may consist of.
var tokenizerFiles = []string{"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"}

// Write writes the model to a folder that holds none, with the tokenizer of another
// folder if that is not "". step is called with the name of every tensor written.
// What does not end whole, or is interrupted, leaves neither a file nor a folder that was
// not there.
func (m *Model) Write(ctx context.Context, dir, tokenizer string, step func(name string)) (err error) {
	files, err := readTokenizer(tokenizer)
	if err != nil {
		return err
	}
	if err := checkVacant(dir, files); err != nil {
		return err
	}
	if err := m.checkRoom(dir); err != nil {
		return err
	}
	removeFolder, err := atomicfile.MakeFolder(dir)
	if err != nil {
		return err
	}
	var written []string
	defer func() {
		if err != nil {
			for _, path := range written {
				os.Remove(path)
			}
			removeFolder()
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if err := atomicfile.Write(path, files[name]); err != nil {
			return err
		}
		written = append(written, path)
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
		path := filepath.Join(dir, s.Name)
		if err := m.shard(ctx, path, s, step); err != nil {
			return err
		}
		written = append(written, path)
	}
	return m.config(dir)
}

// checkVacant refuses a folder that holds a model, or one of the files to be written.
func checkVacant(dir string, files map[string][]byte) error {
	present, err := regular.WithSuffix(dir, ".safetensors")
	if err != nil {
		return err
	}
	for name := range maps.Keys(files) {
		present = append(present, existing(dir, name)...)
	}
	if present = append(present, existing(dir, "config.json")...); len(present) > 0 {
		slices.Sort(present)
		return fmt.Errorf("%s is there already: give another folder", present[0])
	}
	return nil
}

// existing returns the path of a file in dir, if it is there.
func existing(dir, name string) []string {
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); err != nil {
		return nil
	}
	return []string{path}
}

func (m *Model) shard(ctx context.Context, path string, s safetensors.Shard, step func(name string)) error {
	w, err := safetensors.Create(path, s.Tensors)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, i := range s.Tensors {
		if ctx.Err() != nil {
			return ctx.Err()
		}
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

// readTokenizer returns the files of a folder's tokenizer, none of no folder.
func readTokenizer(dir string) (map[string][]byte, error) {
	if dir == "" {
		return nil, nil
	}
	files := map[string][]byte{}
	for _, name := range tokenizerFiles {
		data, err := regular.Read(filepath.Join(dir, name), 1<<28)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has none of the files of a tokenizer: %v", dir, tokenizerFiles)
	}
	return files, nil
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
	return atomicfile.Write(filepath.Join(dir, "config.json"), append(ordered.Untagged(data), '\n'))
}
