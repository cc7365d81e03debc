package measure

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"exl2/internal/exl2"
)

func golden(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "golden", "exl2", "small.measurement.json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// smallShapes are the matrices of the model that the golden file measures.
var smallShapes = map[string][2]int{
	"q_proj": {384, 384}, "k_proj": {384, 128}, "v_proj": {384, 128}, "o_proj": {384, 384},
	"gate_proj": {384, 1024}, "up_proj": {384, 1024}, "down_proj": {1024, 384},
}

// ExLlamaV2's own file: our sizes are its sizes, and written again it means the
// same.
func TestExLlamaV2File(t *testing.T) {
	f, err := Parse(golden(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Sublayers) != 18 || f.LastModule != 18 {
		t.Fatalf("%d sublayers, last module %d", len(f.Sublayers), f.LastModule)
	}
	for _, h := range f.Sublayers {
		for i, o := range h.Options {
			bits := 0
			for _, r := range o.Recipes {
				shape := smallShapes[r.Name]
				bits += exl2.MustRecipe(r.Recipe).Size(shape[0], shape[1])
			}
			if bits != o.Bits {
				t.Errorf("%s, option %d: %d bits, the file says %d", h.Key, i, bits, o.Bits)
			}
		}
	}
	var out bytes.Buffer
	if err := f.Write(&out); err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(golden(t), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("written again, the file says something else")
	}
}

// The tables beside ExLlamaV2's part come back as they were.
func TestTables(t *testing.T) {
	r := exl2.MustRecipe("0.125:4b_64g/0.875:3b_64g")
	f := &File{LastModule: 4, Sublayers: []Sublayer{
		{
			Key:     "model.layers.0.mlp",
			Options: []Option{{Accuracy: 0.5, Bits: 10, Recipes: []NamedRecipe{{"up_proj", r.String()}}}},
			Tables: []Table{{
				Key: "model.layers.0.mlp.up_proj", In: 64, Out: 96, Sensitivity: 0.25,
				Candidates: []Candidate{{Recipe: r.String(), Bits: r.Size(64, 96), Error: 0.0625}},
			}},
		},
		{
			Key:     "model.layers.1.parallel_decoder",
			Options: []Option{{Accuracy: 0.5, Bits: 10, Recipes: []NamedRecipe{{"q_proj", r.String()}}}},
			MLP:     []Option{{Accuracy: 0.25, Bits: 11, Recipes: []NamedRecipe{{"up_proj", r.String()}}}},
		},
		{
			Key:     "model.layers.2.block_sparse_moe",
			Options: []Option{{Accuracy: 0.5, Bits: 10, Recipes: []NamedRecipe{{"w1", r.String()}}}},
			Tables: []Table{{
				Key: "model.layers.2.mlp.experts.3.up_proj", Module: "model.layers.2.block_sparse_moe", In: 64, Out: 96, Sensitivity: 0.25,
				Candidates: []Candidate{{Recipe: r.String(), Bits: r.Size(64, 96), Error: 0.0625, Divergence: 0.5}}, Group: "model.layers.2.mlp.experts.*.up_proj", Share: 0.125,
			}},
			Coverage: []int{0, 3, 5, 100},
		},
		{Key: "model.norm.norm"},
	}, Folds: []Fold{{Key: "model.layers.0.input_layernorm", Channels: []int{0, 32}, Exponents: []int{4, -1}}}, Rotated: true}
	var out bytes.Buffer
	if err := f.Write(&out); err != nil {
		t.Fatal(err)
	}
	back, err := Parse(out.Bytes())
	if err != nil || !reflect.DeepEqual(back, f) {
		t.Errorf("%+v, %v", back, err)
	}
	if !strings.Contains(out.String(), `"model.norm.norm": null`) {
		t.Error("a module without measurement is not null")
	}
}

func TestDamagedFiles(t *testing.T) {
	option := `{"accuracy":0.5,"total_bits":10,"q_proj":{"group_size":{"4":128},"bits":[4],"bits_prop":[1.0],"scale_bits":4}}`
	file := func(options string) string { return `{"measurement":{"a":[` + options + `]},"last_module_idx":1}` }
	ours := func(table string) string {
		return `{"measurement":{"a":[` + option + `]},"exl2":{"version":1,"tables":[` + table + `]}}`
	}
	const table = `{"key":"a.q_proj","in":64,"out":64,"sensitivity":0.5,"candidates":[{"mix":"1:4b_64g","bits":18736,"error":0}]}`
	if _, err := Parse([]byte(file(option))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"nothing":          {``, "unexpected end"},
		"Git LFS":          {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "a Git LFS pointer, not the file itself"},
		"no measurement":   {`{}`, `no object "measurement"`},
		"a list":           {`{"measurement":[]}`, "not a JSON object"},
		"layout of 2023":   {`{"measurement":[{"key":"a.q_proj","numel":4096,"options":[{"desc":"1:4b 32g s4","bpw":4.1,"total_bits":16793.6,"err":0.02,"qparams":{}}]}],"last_module_idx":1,"base_perplexity":5.5}`, "of 2023, which lack what sublayers lose; leave --measurement out"},
		"list":             {`[]`, "have a JSON array, want an object"},
		"accuracy's type":  {file(strings.Replace(option, "0.5", `"x"`, 1)), "a: option 0: accuracy: have a JSON string, want a number"},
		"table twice":      {ours(table + "," + table), "exl2: a.q_proj: has two tables"},
		"repeated":         {`{"measurement":{"a":null,"a":null}}`, `"a": stands there twice`},
		"options no list":  {`{"measurement":{"a":3}}`, "a: "},
		"no matrices":      {file(`{"accuracy":1,"total_bits":3}`), "a: option 0: no matrices"},
		"no accuracy":      {file(strings.Replace(option, `"accuracy":0.5,`, "", 1)), "a: option 0: no accuracy"},
		"null accuracy":    {file(strings.Replace(option, "0.5", "null", 1)), "a: option 0: no accuracy"},
		"no bits":          {file(strings.Replace(option, `"total_bits":10,`, "", 1)), "total_bits 0"},
		"accuracy":         {file(strings.Replace(option, "0.5", "1.5", 1)), "accuracy 1.5"},
		"bits":             {file(strings.Replace(option, "10", "-1", 1)), "total_bits -1"},
		"seven bits":       {file(strings.ReplaceAll(option, "4]", "7]")), "7 bits"},
		"missing group":    {file(strings.Replace(option, `"4":128`, ``, 1)), "group of 0"},
		"unequal lists":    {file(strings.Replace(option, "[1.0]", "[0.5,0.5]", 1)), "1 bits and 2 bits_prop"},
		"scale bits":       {file(strings.Replace(option, `"scale_bits":4`, `"scale_bits":8`, 1)), "scale_bits 8"},
		"table of nothing": {ours(`{"key":"a.q_proj","in":64,"out":64,"candidates":[]}`), "no candidates"},
		"table's shape":    {ours(`{"key":"a.q_proj","in":63,"out":64,"sensitivity":1,"candidates":[{"mix":"1:4b_32g","bits":1,"error":0}]}`), "shape 63 x 64"},
		"table's size":     {ours(`{"key":"a.q_proj","in":64,"out":64,"sensitivity":1,"candidates":[{"mix":"1:4b_32g","bits":1,"error":0}]}`), "1 bits, want"},
		"table of others":  {ours(`{"key":"b.q_proj","in":64,"out":64,"sensitivity":1,"candidates":[{"mix":"1:4b_64g","bits":18736,"error":0}]}`), "belongs to no sublayer"},
		"table's share":    {ours(`{"key":"a.q_proj","in":64,"out":64,"share":2,"candidates":[{"mix":"1:4b_64g","bits":18736,"error":0}]}`), "share 2"},
		"no sensitivity":   {ours(strings.Replace(table, `"sensitivity":0.5,`, "", 1)), "exl2: a.q_proj: no sensitivity"},
		"null sensitivity": {ours(strings.Replace(table, "0.5", "null", 1)), "exl2: a.q_proj: no sensitivity"},
		"sensitivity":      {ours(strings.Replace(table, "0.5", "-0.5", 1)), "sensitivity -0.5, want 0 to 1e+60"},
		"no error":         {ours(strings.Replace(table, `,"error":0`, "", 1)), "exl2: a.q_proj: 1:4b_64g: no error"},
		"null error":       {ours(strings.Replace(table, `"error":0`, `"error":null`, 1)), "1:4b_64g: no error"},
		"divergence":       {ours(strings.Replace(table, `"error":0`, `"error":0,"divergence":-1`, 1)), "1:4b_64g: divergence -1"},
		"fold of nothing":  {`{"measurement":{},"exl2":{"version":1,"folds":[{"key":"a","channels":[],"exponents":[]}]}}`, "a: fold of 0 channels"},
		"half a fold":      {`{"measurement":{},"exl2":{"version":1,"folds":[{"key":"a","channels":[1,2],"exponents":[1]}]}}`, "2 channels with 1 exponents"},
		"fold by one":      {`{"measurement":{},"exl2":{"version":1,"folds":[{"key":"a","channels":[1],"exponents":[0]}]}}`, "channel 1 divided by two to the power of 0"},
		"fold, repeated":   {`{"measurement":{},"exl2":{"version":1,"folds":[{"key":"a","channels":[1,1],"exponents":[1,1]}]}}`, "channel 1 divided"},
		"half a block":     {`{"measurement":{"a":{"attn":[` + option + `]}}}`, "a: "},
		"no MLP":           {`{"measurement":{"a":{"attn":[` + option + `],"mlp":[]}}}`, "a parallel block needs options in attn and in mlp"},
		"version":          {`{"measurement":{},"exl2":{"version":9}}`, "version 9"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c[0]))
			if err == nil || !strings.Contains(err.Error(), c[1]) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line about %q", err, c[1])
			}
		})
	}
}

// Whatever is parsed can be written, and means the same when it is read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"measurement":{"a":[{"accuracy":0.5,"total_bits":10,"q":{"group_size":{"4":128},"bits":[4],"bits_prop":[1.0],"scale_bits":4}}],"b":null},"last_module_idx":1}`))
	f.Add([]byte(`{"measurement":{"a":null},"exl2":{"version":1,"tables":[{"key":"a.q","in":64,"out":64,"sensitivity":1,"candidates":[{"mix":"1:4b_64g","bits":18736,"error":0}]}]}}`))
	f.Add([]byte(`{"measurement":{"a":{"attn":[{"accuracy":0.5,"total_bits":10,"q":{"group_size":{"4":128},"bits":[4],"bits_prop":[1.0],"scale_bits":4}}],"mlp":[{"accuracy":0.5,"total_bits":10,"up":{"group_size":{"4":128},"bits":[4],"bits_prop":[1.0],"scale_bits":4}}]}}}`))
	f.Add([]byte(`{"measurement":{"a":null},"exl2":{"version":1,"coverage":{"a":[1,2]},"tables":[{"key":"b.q","module":"a","group":"b.*","share":0.5,"in":64,"out":64,"sensitivity":1,"candidates":[{"mix":"1:4b_64g","bits":18736,"error":0}]}]}}`))
	f.Add([]byte(`{"measurement":{"a":null},"exl2":{"version":1,"folds":[{"key":"a","channels":[0,7],"exponents":[4,-64]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := Parse(data)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := first.Write(&out); err != nil {
			t.Fatal(err)
		}
		second, err := Parse(out.Bytes())
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v became %+v, %v", first, second, err)
		}
	})
}
