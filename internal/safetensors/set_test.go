package safetensors

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// one is a file that holds one byte tensors.
func one(names ...string) []byte {
	var fields []string
	for i, n := range names {
		fields = append(fields, fmt.Sprintf(`%q:{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, n, i, i+1))
	}
	b := raw("{"+strings.Join(fields, ",")+"}", len(names))
	for i := range names {
		b[len(b)-len(names)+i] = names[i][0]
	}
	return b
}

// index is an index file for tensor, shard pairs.
func index(pairs ...string) []byte {
	var fields []string
	for i := 0; i < len(pairs); i += 2 {
		fields = append(fields, fmt.Sprintf("%q:%q", pairs[i], pairs[i+1]))
	}
	return []byte(`{"metadata":{"total_size":3},"weight_map":{` + strings.Join(fields, ",") + "}}")
}

type files map[string][]byte

func (f files) place(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range f {
		placeFile(t, dir, name, content)
	}
	return dir
}

// isCodes tells of tensors of a format whose folders may have a stale index.
func isCodes(tensor string) bool { return strings.HasSuffix(tensor, ".codes") }

func TestOpenDir(t *testing.T) {
	cases := []struct {
		name  string
		files files
		want  string // names, or
		err   string // a part of the error
	}{
		{"one file", files{"model.safetensors": one("b", "a")}, "a b", ""},
		{"two files without an index", files{"x.safetensors": one("b"), "y.safetensors": one("a")}, "a b", ""},
		{"one file, beside others", files{
			"model.safetensors": one("b"), "consolidated.safetensors": one("a", "b"), indexName: index("a", "x.safetensors"),
		}, "b", ""},
		{"quantized, in one file beside others", files{"model.safetensors": one("m.codes"), "more.safetensors": one("n")}, "m.codes n", ""},
		{"damaged file beside", files{"model.safetensors": one("b"), "._model.safetensors": {0, 5, 22, 7}, "x.safetensors": {}}, "b", ""},
		{"hidden file", files{"x.safetensors": one("b"), "._x.safetensors": {0, 5, 22, 7}}, "b", ""},
		{"index", files{
			"model-1.safetensors": one("b"), "model-2.safetensors": one("a"),
			indexName: index("a", "model-2.safetensors", "b", "model-1.safetensors"),
		}, "a b", ""},
		{"index that leaves files out", files{
			"model-1.safetensors": one("a"), "copy.safetensors": one("a", "z"), "broken.safetensors": []byte("?"),
			indexName: index("a", "model-1.safetensors"),
		}, "a", ""},
		{"quantized, with a stale index", files{
			"output.safetensors": one("m.codes", "n"), indexName: index("a", "model-1.safetensors"),
		}, "m.codes n", ""},
		{"quantized, with a broken index", files{
			"output.safetensors": one("m.codes"), indexName: []byte("{"),
		}, "m.codes", ""},
		{"quantized, in shards, the codes in the second", files{
			"output-00001-of-00002.safetensors": one("n"), "output-00002-of-00002.safetensors": one("m.codes"),
			indexName: index("n", "output-00001-of-00002.safetensors"),
		}, "m.codes n", ""},
		{"a name of a folder", files{"model.safetensors": one("a")}, "a", ""},

		{"nothing", files{"config.json": nil}, "", "no *.safetensors files"},
		{"PyTorch files only", files{"pytorch_model-00001-of-00002.bin": nil, "training_args.bin": nil}, "",
			"no *.safetensors files; pytorch_model-00001-of-00002.bin is there: convert the model to safetensors first"},
		{"a GGUF file", files{"config.json": nil, "tiny.Q4_K_M.gguf": nil}, "",
			"no *.safetensors files; tiny.Q4_K_M.gguf is there: GGUF is not read, get the original model, as safetensors"},
		{"files of PyTorch by other names", files{"consolidated.00.pth": nil}, "", "consolidated.00.pth is there: convert the model to safetensors first"},
		{"tensor in two files", files{"x.safetensors": one("a"), "y.safetensors": one("a")}, "", `y.safetensors: tensor "a" is also in x.safetensors; move the file away`},
		{"damaged file", files{"x.safetensors": one("a"), "y.safetensors": one("b")[:10]}, "", "y.safetensors: the header is"},
		{"index names a missing shard", files{
			"x.safetensors": one("a"), indexName: index("a", "x.safetensors", "b", "z.safetensors"),
		}, "", `index.json: tensor "b": shard z.safetensors is not there; download it, or get the index that belongs to these files, or remove it`},
		{"damaged quantized file behind a stale index", files{
			"output.safetensors": one("m.codes")[:10], indexName: index("a", "x.safetensors"),
		}, "", "output.safetensors: the header is"},
		{"index names a damaged shard", files{
			"x.safetensors": one("a")[:9], indexName: index("a", "x.safetensors"),
		}, "", "x.safetensors: the header is"},
		{"index names a missing tensor", files{
			"x.safetensors": one("a"), indexName: index("a", "x.safetensors", "b", "x.safetensors"),
		}, "", `index.json: tensor "b" is not in x.safetensors; get the index that belongs to these files, or remove it`},
		{"index leaves the folder", files{
			"x.safetensors": one("a"), indexName: index("a", "../x.safetensors"),
		}, "", `tensor "a": "../x.safetensors" is not the name of a safetensors file in the folder`},
		{"index names another kind of file", files{
			"x.safetensors": one("a"), indexName: index("a", "/etc/passwd"),
		}, "", `"/etc/passwd" is not the name`},
		{"index names a tensor twice", files{
			"x.safetensors": one("a"), indexName: index("a", "x.safetensors", "a", "x.safetensors"),
		}, "", `weight_map: "a" stands twice`},
		{"index of another shape", files{"x.safetensors": one("a"), indexName: []byte(`{"weight_map":{"a":["x.safetensors"]}}`)}, "", `index.json: weight_map: tensor "a": want a file name`},
		{"index without a map", files{"x.safetensors": one("a"), indexName: []byte(`{}`)}, "", "weight_map is missing"},
		{"index with an empty map", files{"x.safetensors": one("a"), indexName: index()}, "", "weight_map is empty"},
		{"index that is no object", files{"x.safetensors": one("a"), indexName: []byte(`[1`)}, "", "index.json: not a JSON object"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := c.files.place(t)
			if err := os.Mkdir(filepath.Join(dir, "folder.safetensors"), 0o777); err != nil {
				t.Fatal(err)
			}
			s, err := OpenDir(dir, isCodes)
			if err != nil {
				if c.err == "" || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %q\nwant %q and the folder", err, c.err)
				}
				return
			}
			defer s.Close()
			if got := strings.Join(s.Names(), " "); got != c.want || c.err != "" {
				t.Errorf("names %q, want %q%s", got, c.want, c.err)
			}
			checkSet(t, s)
		})
	}
}

// checkSet reads every tensor, whose byte is the first of its name.
func checkSet(t *testing.T, s *Set) {
	t.Helper()
	for _, name := range s.Names() {
		tensor, err := s.Get(name)
		if err != nil || string(tensor.Data) != name[:1] {
			t.Errorf("%s: data %q, %v", name, tensor.Data, err)
		}
		var b [1]byte
		if err := s.ReadInto(b[:], name); err != nil || b[0] != name[0] {
			t.Errorf("%s: read %q, %v", name, b, err)
		}
		if info, ok := s.Info(name); !ok || info.Name != name || !s.Has(name) {
			t.Errorf("%s: info %+v, %v", name, info, ok)
		}
	}
	if got := s.TotalBytes(); got != int64(len(s.Names())) {
		t.Errorf("%d bytes in all, want %d", got, len(s.Names()))
	}
	if _, err := s.Get("none"); err == nil || s.Has("none") {
		t.Error("a tensor that is not there was found")
	}
	if err := s.ReadInto(nil, "none"); err == nil {
		t.Error("a tensor that is not there was read")
	}
	if _, ok := s.Info("none"); ok {
		t.Error("a tensor that is not there has an info")
	}
}

// A tensor that an index leaves out is told from one that no file has.
func TestLeftOutByIndex(t *testing.T) {
	s, err := OpenDir(files{"x.safetensors": one("a", "b"), "model.safetensors.index.json": index("a", "x.safetensors")}.place(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, want := range map[string]string{
		"b": `model.safetensors.index.json: no tensor "b", which is in x.safetensors; get the index that belongs to these files, or remove it, and all of them are read`,
		"c": `no tensor "c"`,
	} {
		if _, err := s.Get(name); err == nil || !strings.HasSuffix(err.Error(), want) || s.Has(name) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

// What is missing with a file whose number others speak of is told by that file.
func TestMissingFile(t *testing.T) {
	for want, f := range map[string]files{
		`no tensor "c"; output-00002-of-00003.safetensors is not there: download it`: {"output-00001-of-00003.safetensors": one("a"), "output-00003-of-00003.safetensors": one("b")},
		`no tensor "c"`: {"output-00001-of-00002.safetensors": one("a"), "output-00002-of-00002.safetensors": one("b")},
	} {
		s, err := OpenDir(f.place(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get("c"); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		s.Close()
	}
}

func TestManyShards(t *testing.T) {
	f := files{}
	const shards = 150
	for i := range shards {
		f[fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)] = one(fmt.Sprintf("t%03d", i))
	}
	s, err := OpenDir(f.place(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, file := range s.files {
		if file.mapped != nil {
			t.Errorf("%s is mapped before anything was asked for", file.path)
		}
	}
	if got := s.Paths(); len(got) != shards || !slices.IsSorted(got) {
		t.Errorf("%d paths, want %d sorted", len(got), shards)
	}
	checkSet(t, s)
}

// TestSharedModels opens models, if some lie beside the repository.
func TestSharedModels(t *testing.T) {
	for name, tensors := range map[string]int{"tiny": 39, "small": 74} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("../../../shared/models", name)
			if _, err := os.Stat(dir); err != nil {
				t.Skip("../shared/models is not there")
			}
			s, err := OpenDir(dir, isCodes)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := len(s.Names()); got != tensors {
				t.Errorf("%d tensors, want %d", got, tensors)
			}
			info, ok := s.Info("model.embed_tokens.weight")
			if !ok || info.DType != F16 || len(info.Shape) != 2 {
				t.Errorf("embedding is %+v", info)
			}
		})
	}
}

func FuzzIndex(f *testing.F) {
	f.Add(index("a", "x.safetensors"))
	f.Add(index("a", "../x.safetensors"))
	f.Add([]byte(`{"weight_map":{"a":"x.safetensors",}}`))
	f.Add([]byte(`{"weight_map":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		index, err := parseIndex(data)
		if err == nil && len(index) == 0 {
			t.Error("an index without tensors was accepted")
		}
		for _, p := range index {
			if filepath.Base(p.shard) != p.shard {
				t.Errorf("shard %q leaves the folder", p.shard)
			}
		}
	})
}
