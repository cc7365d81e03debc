package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// write makes a file with the given data, in the order of the names.
func write(path string, tensors []Info, data map[string][]byte) error {
	w, err := Create(path, tensors)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, t := range tensors {
		if err := w.Write(t.Name, data[t.Name]); err != nil {
			return err
		}
	}
	return w.Commit()
}

// TestBytes holds the whole file against the format's description.
func TestBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	tensors := []Info{{"norm <1>", F16, []int{1}}, {"codes", I32, []int{1, 2}}, {"none", F16, []int{0}}}
	if err := write(path, tensors, map[string][]byte{"norm <1>": []byte("ab"), "codes": []byte("cdefghij")}); err != nil {
		t.Fatal(err)
	}
	header := `{"__metadata__":{"format":"pt"},` +
		`"codes":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]},` +
		`"norm <1>":{"dtype":"F16","shape":[1],"data_offsets":[8,10]},` +
		`"none":{"dtype":"F16","shape":[0],"data_offsets":[10,10]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	want := raw(header, 0)
	want = append(want, "cdefghijab"...)
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("file %q, %v\nwant %q", got, err, want)
	}
	if len(header)%8 != 0 {
		t.Errorf("header of %d bytes, want a multiple of 8", len(header))
	}
}

// drawTensors draws declarations with data.
func drawTensors(r *rapid.T) ([]Info, map[string][]byte) {
	types := []string{"BOOL", "U8", "F8_E4M3", F16, BF16, I16, F32, I32, "F64", "U64"}
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9."\\é\x{1F600} ]{1,12}`), 0, 8, rapid.ID).Draw(r, "names")
	var tensors []Info
	data := map[string][]byte{}
	for _, name := range names {
		info := Info{
			Name:  name,
			DType: rapid.SampledFrom(types).Draw(r, "dtype"),
			Shape: rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(r, "shape"),
		}
		size, err := info.Bytes()
		if err != nil {
			r.Fatal(err)
		}
		tensors = append(tensors, info)
		data[name] = rapid.SliceOfN(rapid.Byte(), int(size), int(size)).Draw(r, "data")
	}
	return tensors, data
}

// checkFile compares what a file holds with what was written, and makes sure
// that every tensor is aligned to its element.
func checkFile(t rapid.TB, f *File, tensors []Info, data map[string][]byte) {
	if got := len(f.Names()); got != len(tensors) {
		t.Errorf("%d tensors, want %d", got, len(tensors))
	}
	for _, want := range tensors {
		got, err := f.Get(want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, data[want.Name]) {
			t.Errorf("read %+v\nwant %+v with %v", got, want, data[want.Name])
		}
		place := f.start + f.entries[f.places[want.Name]].begin
		if align := int64(elementBits[want.DType] / 8); place%align != 0 {
			t.Errorf("%s of %s begins at byte %d", want.Name, want.DType, place)
		}
	}
}

func TestWrittenIsRead(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		tensors, data := drawTensors(r)
		path := filepath.Join(dir, "a.safetensors")
		if err := write(path, tensors, data); err != nil {
			r.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			r.Fatal(err)
		}
		defer f.Close()
		checkFile(r, f, tensors, data)

		again, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		other := filepath.Join(dir, "b.safetensors")
		if err := writeShuffled(r, other, tensors, data); err != nil {
			r.Fatal(err)
		}
		if second, err := os.ReadFile(other); err != nil || !bytes.Equal(again, second) {
			r.Error("another order of writing gives another file")
		}
	})
}

func writeShuffled(r *rapid.T, path string, tensors []Info, data map[string][]byte) error {
	w, err := Create(path, tensors)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, t := range rapid.Permutation(tensors).Draw(r, "order") {
		if err := w.Write(t.Name, data[t.Name]); err != nil {
			return err
		}
	}
	return w.Commit()
}

func TestDeclarationsThatCannotBe(t *testing.T) {
	cases := []struct {
		name    string
		tensors []Info
		want    string
	}{
		{"type", []Info{{"a", "F7", []int{1}}}, `tensor "a": dtype "F7" is not known`},
		{"negative", []Info{{"a", F16, []int{2, -1}}}, `tensor "a": shape [2 -1] has a negative size`},
		{"twice", []Info{{"a", F16, nil}, {"a", F16, nil}}, `tensor "a" is declared twice`},
		{"reserved", []Info{{"__metadata__", F16, nil}}, `the name is reserved`},
		{"not UTF-8", []Info{{"a\xff", F16, nil}}, `the name is not UTF-8`},
		{"too large together", []Info{
			{"a", "U8", []int{1<<61 - 1}}, {"b", "U8", []int{1<<61 - 1}}, {"c", "U8", []int{1<<61 - 1}},
			{"d", "U8", []int{1<<61 - 1}}, {"e", "U8", []int{4}},
		}, `tensor "e": the file would be too large`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Create(filepath.Join(dir, "a.safetensors"), c.tensors)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "a.safetensors: ") {
				t.Errorf("error %v, want the path and %q", err, c.want)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%d files left", len(left))
			}
		})
	}
}

// TestMisuse lists what a program can do wrong with a Writer.
func TestMisuse(t *testing.T) {
	cases := []struct {
		name string
		use  func(w *Writer)
		want string
	}{
		{"length", func(w *Writer) { w.Write("a", make([]byte, 3)) }, `safetensors: Write: "a" has 3 bytes, want 4`},
		{"name", func(w *Writer) { w.Write("b", nil) }, `safetensors: Write: "b" was not declared`},
		{"twice", func(w *Writer) { w.Write("a", make([]byte, 4)); w.Write("a", make([]byte, 4)) }, `"a" is written already`},
		{"forgotten", func(w *Writer) { w.Commit() }, "1 of 1 tensors were not written"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, err := Create(filepath.Join(t.TempDir(), "a.safetensors"), []Info{{"a", F16, []int{2}}})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Abort()
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, c.want) {
					t.Errorf("panic %q, want %q", got, c.want)
				}
			}()
			c.use(w)
		})
	}
}

func TestFailedWriteIsNotCommitted(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "a.safetensors"), []Info{{"a", F16, []int{2}}})
	if err != nil {
		t.Fatal(err)
	}
	w.file.Abort()
	failed := w.Write("a", make([]byte, 4))
	if failed == nil {
		t.Fatal("a write to an aborted file succeeds")
	}
	if err := w.Commit(); !errors.Is(err, failed) {
		t.Errorf("Commit returns %v, want %v", err, failed)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%d files left", len(left))
	}
}

func TestPlan(t *testing.T) {
	sizes := func(n ...int) []Info {
		var all []Info
		for i, size := range n {
			all = append(all, Info{fmt.Sprint("t", i), "U8", []int{size}})
		}
		return all
	}
	cases := []struct {
		name    string
		tensors []Info
		limit   int64
		want    string // file: sizes of its tensors
	}{
		{"nothing", nil, 10, ""},
		{"no limit", sizes(5, 6, 7), 0, "out.safetensors: 5 6 7"},
		{"fits exactly", sizes(5, 5), 10, "out.safetensors: 5 5"},
		{"one byte over", sizes(5, 6), 10, "out-00001-of-00002.safetensors: 5; out-00002-of-00002.safetensors: 6"},
		{"larger than the limit", sizes(3, 50, 3), 10, "out-00001-of-00003.safetensors: 3; out-00002-of-00003.safetensors: 50; out-00003-of-00003.safetensors: 3"},
		{"larger than the limit, first", sizes(50, 3), 10, "out-00001-of-00002.safetensors: 50; out-00002-of-00002.safetensors: 3"},
		{"empty tensors", sizes(0, 10, 0), 10, "out.safetensors: 0 10 0"},
		{"three", sizes(4, 4, 4, 4, 4), 9, "out-00001-of-00003.safetensors: 4 4; out-00002-of-00003.safetensors: 4 4; out-00003-of-00003.safetensors: 4"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			shards, err := Plan("out", c.tensors, c.limit)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range shards {
				line := s.Name + ":"
				for _, info := range s.Tensors {
					line += fmt.Sprint(" ", info.Shape[0])
				}
				got = append(got, line)
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), c.want)
			}
		})
	}
	if _, err := Plan("out", []Info{{"a", "X", nil}}, 0); err == nil || !strings.Contains(err.Error(), `tensor "a": dtype "X"`) {
		t.Errorf("error %v, want one about the type", err)
	}
}

func TestPlanKeepsEveryTensor(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tensors, _ := drawTensors(r)
		limit := rapid.Int64Range(0, 100).Draw(r, "limit")
		shards, err := Plan("m", tensors, limit)
		if err != nil {
			r.Fatal(err)
		}
		var all []string
		for _, s := range shards {
			var total int64
			for _, info := range s.Tensors {
				size, _ := info.Bytes()
				total += size
				all = append(all, info.Name)
			}
			if len(s.Tensors) == 0 || limit > 0 && total > limit && !oneLarge(s, limit) {
				r.Errorf("%s holds %d bytes in %d tensors, limit %d", s.Name, total, len(s.Tensors), limit)
			}
		}
		var want []string
		for _, info := range tensors {
			want = append(want, info.Name)
		}
		if !slices.Equal(all, want) {
			r.Errorf("planned %q, want %q", all, want)
		}
	})
}

// oneLarge tells whether a shard is over its limit because of one tensor that
// is: others beside it must be empty.
func oneLarge(s Shard, limit int64) bool {
	filled, large := 0, false
	for _, info := range s.Tensors {
		size, _ := info.Bytes()
		if size > 0 {
			filled++
		}
		large = large || size > limit
	}
	return filled == 1 && large
}
