package safetensors

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/mapped"
)

// raw makes the bytes of a file from its header and the length of its data.
func raw(header string, dataBytes int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	return append(b, make([]byte, dataBytes)...)
}

// place writes a file into a folder of the test and returns its path.
func placeFile(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// damaged files and a part of the error that each must give.
var damaged = []struct {
	name    string
	content []byte
	want    string
}{
	{"empty file", nil, "0 bytes are too few"},
	{"half a length", []byte{1, 2, 3, 4}, "4 bytes are too few"},
	{"header cut off", raw(`{"a":{"dtype":"F32"`, 0)[:20], "the header is 19 bytes long, the file has 12 after its length: truncated"},
	{"header of 100 MB and one", binary.LittleEndian.AppendUint64(nil, 100_000_001), "over the format's 100000000"},
	{"header of 2^63", binary.LittleEndian.AppendUint64(nil, 1<<63), "a header of 9223372036854775808 bytes"},
	{"a GGUF file", append([]byte("GGUF\x03\x00\x00\x00"), make([]byte, 100)...), "not a safetensors file: a GGUF file, which is not read; get the original model"},
	{"a file of PyTorch", append([]byte("PK\x03\x04\x00\x00\x08\x08"), make([]byte, 100)...), "not a safetensors file: a zip file, as those of PyTorch are: convert the model to safetensors first"},
	{"a page of a site that wants a login", []byte("<!DOCTYPE html><html>"), "not a safetensors file: a web page: the download got no model"},
	{"header of 2^64-1", bytes.Repeat([]byte{255}, 16), "not a safetensors file"},
	{"git lfs pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer, not the file itself: git lfs pull fetches that"},
	{"no header", raw("", 0), "header: want an object, the JSON ends"},
	{"array", raw("[]", 0), "header: want an object, got '['"},
	{"not UTF-8", raw("{\"\xff\":{}}", 0), "not UTF-8"},
	{"not closed", raw(`{`, 0), "want a key, the JSON ends"},
	{"text after the header", raw(`{} x`, 0), `want the end, got 'x' at byte 3`},
	{"trailing comma", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},}`, 1), "want a key, got '}'"},
	{"missing comma", raw(`{"a":{"dtype":"U8" "shape":[1]}}`, 1), `tensor "a": want a comma or '}', got '"'`},
	{"tensor is a number", raw(`{"a":1}`, 0), `tensor "a": want an object, got '1'`},
	{"tensor twice", raw(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), `"a" stands twice`},
	{"tensor twice, escaped", raw(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{}}`, 0), `"a" stands twice`},
	{"field twice", raw(`{"a":{"dtype":"U8","dtype":"U8"}}`, 0), `tensor "a": "dtype" stands twice`},
	{"unknown field without a value", raw(`{"a":{"dtype":"U8","strides":}}`, 0), `tensor "a": "strides": invalid character '}'`},
	{"unknown field of great depth", raw(`{"a":{"x":`+strings.Repeat("[", 20_000), 0), `tensor "a": "x": `},
	{"metadata false", raw(`{"__metadata__":false}`, 0), "__metadata__: want an object, got 'f'"},
	{"no name", raw(`{"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), "a tensor has no name"},
	{"name with a line break", raw(`{"a\nb":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), `tensor "a\nb": the name has a control character`},
	{"no dtype", raw(`{"a":{"shape":[1],"data_offsets":[0,1]}}`, 1), `tensor "a": dtype is missing`},
	{"no shape", raw(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1), `tensor "a": shape is missing`},
	{"no offsets", raw(`{"a":{"dtype":"U8","shape":[1]}}`, 1), `tensor "a": data_offsets is missing`},
	{"unknown dtype", raw(`{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,1]}}`, 1), `tensor "a": dtype "F99" is not known`},
	{"dtype is a number", raw(`{"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}}`, 1), `tensor "a": dtype: want a string, got '8'`},
	{"shape is a number", raw(`{"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}}`, 1), `tensor "a": shape: want an array, got '1'`},
	{"negative size", raw(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1), `tensor "a": shape: "-1" is not a size`},
	{"size with a fraction", raw(`{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, 1), `tensor "a": shape: "1.0" is not a size`},
	{"size with an exponent", raw(`{"a":{"dtype":"U8","shape":[1e9],"data_offsets":[0,1]}}`, 1), `tensor "a": shape: "1e9" is not a size`},
	{"size with a leading zero", raw(`{"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}`, 1), `tensor "a": shape: "01" is not a size`},
	{"size beyond int", raw(`{"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}}`, 1), `tensor "a": shape: "99999999999999999999" is not a size`},
	{"size null", raw(`{"a":{"dtype":"U8","shape":[null],"data_offsets":[0,1]}}`, 1), `tensor "a": shape: want a size, got 'n'`},
	{"product beyond 64 bits", raw(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), `tensor "a": shape [4294967296 4294967296] is too large`},
	{"bits beyond 64 bits", raw(`{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`, 0), `tensor "a": shape [2305843009213693952] is too large`},
	{"65 dimensions", raw(`{"a":{"dtype":"U8","shape":[1`+strings.Repeat(",1", 64)+`],"data_offsets":[0,1]}}`, 1), `tensor "a": shape has 65 sizes, more than 64`},
	{"half a byte", raw(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}`, 2), `tensor "a": shape [3] of F4 does not fill whole bytes`},
	{"one offset", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}`, 1), `tensor "a": data_offsets: has 1 numbers, want 2`},
	{"offsets backwards", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, 1), `tensor "a": data_offsets [1, 0] hold -1 bytes`},
	{"wrong length", raw(`{"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,6]}}`, 6), `tensor "a": data_offsets [0, 6] hold 6 bytes, F16 [2 3] needs 12`},
	{"data cut off", raw(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 3), `tensor "a": data_offsets [0, 4]: the file ends at 3, it is truncated`},
	{"huge tensor", raw(`{"a":{"dtype":"U8","shape":[1000000000000],"data_offsets":[0,1000000000000]}}`, 3), `tensor "a": data_offsets [0, 1000000000000]: the file ends at 3, it is truncated`},
	{"overlap", raw(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}}`, 7), `tensor "b": data_offsets [3, 7]: tensor "a" overlaps it`},
	{"gap", raw(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}}`, 6), `tensor "b": data_offsets [4, 6]: nothing fills the bytes from 2 on`},
	{"gap at the start", raw(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), `tensor "a": data_offsets [1, 3]: nothing fills the bytes from 0 on`},
	{"rest", raw(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 5), "3 bytes follow the last tensor"},
	{"rest without tensors", raw(`{}`, 5), "5 bytes follow the last tensor"},
	{"metadata of numbers", raw(`{"__metadata__":{"a":1}}`, 0), "__metadata__: want a string, got '1'"},
	{"metadata twice", raw(`{"__metadata__":{},"__metadata__":{}}`, 0), `"__metadata__" stands twice`},
	{"string without end", raw(`{"a`, 0), "the string at byte 1 has no end"},
	{"string that ends in an escape", raw(`{"a\`, 0), "has no end"},
	{"bad escape", raw(`{"\q":{}}`, 0), `string "\"\\q\""`},
	{"endless name", raw(`{"`+strings.Repeat("n", 100000)+`":1}`, 0), `nnn"...: want an object`},
}

func TestDamagedFiles(t *testing.T) {
	for _, c := range damaged {
		t.Run(c.name, func(t *testing.T) {
			path := placeFile(t, t.TempDir(), "model.safetensors", c.content)
			f, err := Open(path)
			if err == nil {
				f.Close()
				t.Fatalf("opened, want an error with %q", c.want)
			}
			if !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q\nwant the path and %q", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
				t.Errorf("error of %d bytes is not one readable line", len(err.Error()))
			}
		})
	}
}

func TestOpenOfAFolder(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v, want one that says that it is no file", err)
	}
}

func TestReadInOrderOfData(t *testing.T) {
	header := `{ "late":{"data_offsets":[4,6],"shape":[2],"dtype":"I8"}, "__metadata__":{"format":"pt","a":"\u00e9"},
		"empty":{"dtype":"F64","shape":[3,0],"data_offsets":[4,4]}, "scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]} }  `
	content := raw(header, 6)
	copy(content[len(content)-6:], "abcdef")
	f, err := Open(placeFile(t, t.TempDir(), "a.safetensors", content))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, want := f.Names(), []string{"scalar", "empty", "late"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	if got, want := f.Metadata(), map[string]string{"format": "pt", "a": "é"}; !maps.Equal(got, want) {
		t.Errorf("metadata %q, want %q", got, want)
	}
	for name, want := range map[string]string{"scalar": "abcd", "empty": "", "late": "ef"} {
		tensor, err := f.Get(name)
		if err != nil || string(tensor.Data) != want || tensor.Name != name {
			t.Errorf("%s: data %q, %v, want %q", name, tensor.Data, err, want)
		}
		read := make([]byte, len(want))
		if err := f.ReadInto(read, name); err != nil || string(read) != want {
			t.Errorf("%s: read %q, %v, want %q", name, read, err, want)
		}
	}
	if _, err := f.Get("none"); err == nil || !strings.Contains(err.Error(), `a.safetensors: no tensor "none"`) {
		t.Errorf("error %v, want one that names file and tensor", err)
	}
	if err := f.ReadInto(nil, "none"); err == nil {
		t.Error("a missing tensor was read")
	}
	if info, ok := f.Info("late"); !ok || info.DType != "I8" || !slices.Equal(info.Shape, []int{2}) {
		t.Errorf("info %+v, %v", info, ok)
	}
}

// TestForeignFile reads what the format's own library wrote: testdata/README.md.
func TestForeignFile(t *testing.T) {
	f, err := Open("testdata/foreign.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := []Info{
		{"bf16", BF16, []int{3}}, {"bool", "BOOL", []int{2, 2}}, {"f16", F16, []int{2, 3}}, {"f32", F32, []int{}},
		{"f64", "F64", []int{1}}, {"f8", "F8_E4M3", []int{5}}, {"i16", I16, []int{1, 3}}, {"i64", "I64", []int{0, 7}}, {"u8", "U8", []int{3}},
	}
	if got := len(f.Names()); got != len(want) {
		t.Errorf("%d tensors, want %d", got, len(want))
	}
	for _, w := range want {
		got, ok := f.Info(w.Name)
		if !ok || got.DType != w.DType || !slices.Equal(got.Shape, w.Shape) {
			t.Errorf("%s: %+v, want %+v", w.Name, got, w)
		}
	}
	if f16, err := f.Get("f16"); err != nil || !bytes.Equal(f16.Data, []byte{0, 0, 0, 60, 0, 64, 0, 66, 0, 68, 0, 69}) {
		t.Errorf("f16: %v, %v, want 0 to 5", f16.Data, err)
	}
	if got := f.Metadata(); !maps.Equal(got, map[string]string{"format": "pt", "note": "ünïcode"}) {
		t.Errorf("metadata %q", got)
	}
}

func truncate(t *testing.T) (f *File, data []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.safetensors")
	const size = 1 << 20
	w, err := Create(path, []Info{{"a", "U8", []int{size}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write("a", make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tensor, err := f.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	return f, tensor.Data
}

func TestReadIntoOfATruncatedFile(t *testing.T) {
	f, data := truncate(t)
	err := f.ReadInto(make([]byte, len(data)), "a")
	if err == nil || !strings.Contains(err.Error(), `a.safetensors: tensor "a": the file was truncated`) {
		t.Errorf("error %v, want one that says that the file was truncated", err)
	}
}

// TestTouchingATruncatedFile is what a program does that has mapped a file.
func TestTouchingATruncatedFile(t *testing.T) {
	_, data := truncate(t)
	var sum byte
	err := mapped.Guard(func() error {
		for _, b := range data {
			sum += b
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "a.safetensors: the file was truncated") {
		t.Errorf("error %v, want one that says that the file was truncated", err)
	}
}

// TestCopyOfATruncatedFile writes mapped data to another file.
func TestCopyOfATruncatedFile(t *testing.T) {
	_, data := truncate(t)
	w, err := Create(filepath.Join(t.TempDir(), "b.safetensors"), []Info{{"b", "U8", []int{len(data)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Write("b", data); err == nil || !strings.Contains(err.Error(), "a.safetensors: the file was truncated") {
		t.Errorf("error %v, want one that names the truncated file", err)
	}
}

// TestAsUpstream reads what the format's own library reads, beyond what the
// format's description allows.
func TestAsUpstream(t *testing.T) {
	const a = `"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}`
	for name, header := range map[string]string{
		"white space in front": " \n\t\r{" + a + "}",
		"null metadata":        `{"__metadata__":null,` + a + `}`,
		"null metadata, last":  `{` + a + `,"__metadata__": null }`,
		"extra fields":         `{"a":{"x":{"dtype":[null,"}"]},"dtype":"U8","y":-1.5e3,"shape":[1],"z":true,"data_offsets":[0,1],"":"\n"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.safetensors")
			if err := os.WriteFile(path, raw(header, 1), 0o666); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := f.Get("a"); err != nil || got.DType != "U8" || len(got.Data) != 1 || len(f.Metadata()) != 0 {
				t.Errorf("read %+v, %v, metadata %v", got, err, f.Metadata())
			}
		})
	}
}

func FuzzHeader(f *testing.F) {
	for _, c := range damaged {
		f.Add(c.content)
	}
	f.Add(raw(`{"a":{"dtype":"F4","shape":[2,1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) < 8 {
			return
		}
		n := int64(len(content) - 8)
		text := content[8:]
		if length := binary.LittleEndian.Uint64(content); length < uint64(n) {
			text = text[:length]
		}
		h, err := parseHeader(text, n-int64(len(text)))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		var total int64
		for _, e := range h.entries {
			bytes, err := e.Bytes()
			if err != nil || e.end-e.begin != bytes || e.begin != total {
				t.Errorf("%+v was accepted after %d bytes", e, total)
			}
			total = e.end
		}
		if total != n-int64(len(text)) {
			t.Errorf("%d of %d bytes are filled", total, n-int64(len(text)))
		}
	})
}
