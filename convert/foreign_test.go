package convert

import (
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/measure"
)

// smallConfig is what the golden measurement is of; its biases are ours.
const smallConfig = `{"architectures": ["LlamaForCausalLM"], "hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 6,
	"num_key_value_heads": 2, "head_dim": 64, "vocab_size": 4096, "max_position_embeddings": 2048, "attention_bias": false}`

// ExLlamaV2's measurement is taken for the model that it is of, as its versions have counted
// bits, and for no other whose layers have the same names.
func TestMeasurementOfAnotherModel(t *testing.T) {
	all := func(f *measure.File, change func(o *measure.Option)) {
		for i := range f.Sublayers {
			for k := range f.Sublayers[i].Options {
				change(&f.Sublayers[i].Options[k])
			}
		}
	}
	inputs := map[string]int{"down_proj": 1024}
	permutations := func(o *measure.Option) (bits int) {
		for _, r := range o.Recipes {
			bits += 32 * max(inputs[r.Name], 384)
		}
		return bits
	}
	biases := func(o *measure.Option) int {
		if o.Recipes[0].Name == "q_proj" {
			return 16 * (384 + 128 + 128 + 384)
		}
		return 0
	}
	const another = "it is another model's"
	for name, c := range map[string]struct {
		old, new string // in config.json
		change   func(f *measure.File)
		want     string // "": it is taken
	}{
		"the model":                 {"", "", func(*measure.File) {}, ""},
		"no place of the head":      {"", "", func(f *measure.File) { f.LastModule = 0 }, ""},
		"another place of the head": {"", "", func(f *measure.File) { f.LastModule = 34 }, "last_module_idx is 34 there, 18 in the model: " + another},
		"fewer layers":              {`layers": 8`, `layers": 7`, func(f *measure.File) { f.LastModule = 0 }, "model.layers.7.self_attn is not in the model: " + another},
		"more layers":               {`layers": 8`, `layers": 9`, func(f *measure.File) { f.LastModule = 0 }, "model.layers.8.self_attn: no options: " + another},
		"wider":                     {`hidden_size": 384`, `hidden_size": 512`, func(*measure.File) {}, another},
		"more heads":                {`key_value_heads": 2`, `key_value_heads": 3`, func(*measure.File) {}, "model.layers.0.self_attn: option 0 has 926848 bits there"},
		"a wider MLP":               {`intermediate_size": 1024`, `intermediate_size": 1056`, func(*measure.File) {}, "model.layers.0.mlp: option 0"},
		"a bit more":                {"", "", func(f *measure.File) { f.Sublayers[3].Options[2].Bits++ }, "model.layers.1.mlp: option 2"},
		"a matrix more": {"", "", func(f *measure.File) {
			o := &f.Sublayers[2].Options[1]
			o.Recipes = append(o.Recipes, measure.NamedRecipe{Name: "foo_proj", Recipe: "1:4b_128g"})
		}, "option 1 has foo_proj, which the model has not: " + another},
		"without permutations":        {"", "", func(f *measure.File) { all(f, func(o *measure.Option) { o.Bits -= permutations(o) }) }, ""},
		"biases":                      {"false", "true", func(f *measure.File) { all(f, func(o *measure.Option) { o.Bits += biases(o) }) }, ""},
		"biases that are not counted": {"false", "true", func(*measure.File) {}, ""},
		"biases that are not there":   {"", "", func(f *measure.File) { all(f, func(o *measure.Option) { o.Bits += biases(o) }) }, another},
	} {
		t.Run(name, func(t *testing.T) {
			src, f := smallMeasured(t, strings.Replace(smallConfig, c.old, c.new, 1))
			c.change(f)
			classes, err := src.classes(f)
			if c.want == "" && (err != nil || len(classes) != 16) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%d classes, error %v, want %q", len(classes), err, c.want)
			}
		})
	}
}

// smallMeasured returns a source of a config.json, and the golden measurement.
func smallMeasured(t *testing.T, config string) (*source, *measure.File) {
	t.Helper()
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, configName), config)
	spec, err := arch.ReadSpec(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := measure.ReadFile(filepath.Join("..", "testdata", "golden", "exl2", "small.measurement.json"))
	if err != nil {
		t.Fatal(err)
	}
	return &source{loader: model.NewLoader(spec, noFiles{})}, f
}

// What a file has beside tables, and is not used, is of the model, too.
func TestOptionsBesideTables(t *testing.T) {
	src, f := smallMeasured(t, smallConfig)
	h := &f.Sublayers[0]
	for _, m := range src.loader.Decoder()[0].Packable() {
		const mix = "1:4b_128g"
		r, err := exl2.ParseRecipe(mix)
		if err != nil {
			t.Fatal(err)
		}
		h.Tables = append(h.Tables, measure.Table{Key: m.Name, In: m.In, Out: m.Out, Candidates: []measure.Candidate{{Recipe: mix, Bits: r.Size(m.In, m.Out)}}})
	}
	if classes, err := src.classes(f); err != nil || len(classes) != 16-1+4 {
		t.Errorf("%d classes, %v", len(classes), err)
	}
	h.Options[4].Bits *= 2
	if _, err := src.classes(f); err == nil || !strings.Contains(err.Error(), "self_attn: option 4 has") {
		t.Error(err)
	}
	h.Options = nil
	if _, err := src.classes(f); err != nil {
		t.Error(err)
	}
}
