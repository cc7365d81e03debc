package calib

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/schema"
	"pgregory.net/rapid"
)

// codecs are all that arrow has.
var codecs = []compress.Compression{
	compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Zstd,
}

// encodings of texts; RLEDict stands for the writer's dictionary.
var encodings = []parquet.Encoding{
	parquet.Encodings.Plain, parquet.Encodings.RLEDict, parquet.Encodings.DeltaLengthByteArray, parquet.Encodings.DeltaByteArray,
}

var pageVersions = []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2}

// properties are the options of a writer.
func properties(codec compress.Compression, encoding parquet.Encoding, version parquet.DataPageVersion) []parquet.WriterProperty {
	all := []parquet.WriterProperty{parquet.WithCompression(codec), parquet.WithDataPageVersion(version)}
	if encoding == parquet.Encodings.RLEDict {
		return append(all, parquet.WithDictionaryDefault(true))
	}
	return append(all, parquet.WithDictionaryDefault(false), parquet.WithEncoding(encoding))
}

// readBytes reads the records of a Parquet file.
func readBytes(t testing.TB, content []byte, column string) []Record {
	t.Helper()
	all, err := readAll(place(t, "a.parquet", content), column)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// keep is the records that a column of texts and nulls must give.
func keep(groups ...[]any) []Record {
	var all []Record
	row := 0
	for _, values := range groups {
		for _, v := range values {
			row++
			if v != nil {
				all = append(all, Record{Row: row, Text: v.(string)})
			}
		}
	}
	return all
}

func TestEveryCodecEncodingAndPageVersion(t *testing.T) {
	groups := [][]any{
		{"", "one", nil, "zwei äöü", "one", "onwards", nil, nil, strings.Repeat("five ", 100)},
		{nil, nil},
		{"last"},
	}
	want := keep(groups...)
	for _, codec := range codecs {
		for _, encoding := range encodings {
			for _, version := range pageVersions {
				t.Run(fmt.Sprint(codec, " ", encoding, " v", version+1), func(t *testing.T) {
					content := writeParquet(t, []fixture{texts("text", groups...)}, properties(codec, encoding, version)...)
					if got := readBytes(t, content, ""); !reflect.DeepEqual(got, want) {
						t.Errorf("got  %+v\nwant %+v", got, want)
					}
				})
			}
		}
	}
}

func TestTextsOfAnyKind(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		codec := rapid.SampledFrom(codecs).Draw(r, "codec")
		encoding := rapid.SampledFrom(encodings).Draw(r, "encoding")
		version := rapid.SampledFrom(pageVersions).Draw(r, "version")
		options := append(properties(codec, encoding, version),
			parquet.WithDataPageSize(rapid.Int64Range(1, 300).Draw(r, "page")), parquet.WithBatchSize(rapid.Int64Range(1, 20).Draw(r, "batch")))
		value := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.StringN(0, 20, -1), func(s string) any { return s }))
		groups := rapid.SliceOfN(rapid.SliceOfN(value, 1, 600), 1, 3).Draw(r, "groups")
		got := readBytes(t, writeParquet(t, []fixture{texts("text", groups...)}, options...), "")
		if want := keep(groups...); !reflect.DeepEqual(got, want) {
			r.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestOneGiantRow(t *testing.T) {
	giant := strings.Repeat("a giant row ", 2<<20) // 25 MB
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			content := writeParquet(t, []fixture{texts("text", []any{giant})}, properties(codec, parquet.Encodings.Plain, parquet.DataPageV1)...)
			got := readBytes(t, content, "")
			if len(got) != 1 || got[0].Text != giant {
				t.Errorf("%d records, want the one that was written", len(got))
			}
		})
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	got := readBytes(t, writeParquet(t, []fixture{texts("text", []any{"a\xffb"})}), "")
	if want := []Record{{Row: 1, Text: "a\uFFFDb"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// lists are ways to write lists of integers: the second repeats the value
// itself, the third a group without the level of the list, as old writers did.
func lists(t *testing.T) map[string]schema.Node {
	t.Helper()
	group := func(name string, repetition parquet.Repetition, field schema.Node) schema.Node {
		return schema.MustGroup(schema.NewGroupNode(name, repetition, schema.FieldList{field}, -1))
	}
	repetitions := parquet.Repetitions
	return map[string]schema.Node{
		"three levels":   group("input_ids", repetitions.Required, group("list", repetitions.Repeated, schema.NewInt64Node("element", repetitions.Required, -1))),
		"two levels":     group("input_ids", repetitions.Required, schema.NewInt64Node("array", repetitions.Repeated, -1)),
		"repeated value": schema.NewInt64Node("input_ids", repetitions.Repeated, -1),
	}
}

func TestListsOfIDs(t *testing.T) {
	for name, node := range lists(t) {
		for _, encoding := range []parquet.Encoding{parquet.Encodings.Plain, parquet.Encodings.RLEDict, parquet.Encodings.DeltaBinaryPacked} {
			for _, version := range pageVersions {
				t.Run(fmt.Sprint(name, " ", encoding, " v", version+1), func(t *testing.T) {
					ids := chunk[int64]{values: []int64{5, 6, 7, 8}, defined: []int16{1, 1, 0, 1, 1}, repeated: []int16{0, 1, 0, 0, 1}}
					content := writeParquet(t, []fixture{{node, []any{ids}}}, properties(compress.Codecs.Zstd, encoding, version)...)
					want := []Record{{Row: 1, IDs: []int32{5, 6}}, {Row: 3, IDs: []int32{7, 8}}}
					if got := readBytes(t, content, ""); !reflect.DeepEqual(got, want) {
						t.Errorf("got  %+v\nwant %+v", got, want)
					}
				})
			}
		}
	}
}

// Lists of lists are no rows of ids: the text beside them is read if it is called so, and
// what else is there is not taken for them.
func TestNestedIDs(t *testing.T) {
	list := func(name string, in schema.Node) schema.Node {
		return schema.MustGroup(schema.NewGroupNode(name, parquet.Repetitions.Repeated, schema.FieldList{in}, -1))
	}
	node := list("input_ids", list("list", schema.NewInt64Node("element", parquet.Repetitions.Required, -1)))
	ids := fixture{node, []any{chunk[int64]{values: []int64{5, 6}, defined: []int16{2, 2}, repeated: []int16{0, 2}}}}
	for name, columns := range map[string][]fixture{"alone": {ids}, "beside others": {ids, texts("source", []any{"web"})}} {
		t.Run(name, func(t *testing.T) {
			path := place(t, "a.parquet", writeParquet(t, columns))
			for _, column := range []string{"", "input_ids"} {
				_, err := readAll(path, column)
				wantError(t, err, path, `"input_ids.list.element" (INT64)`)
			}
		})
	}
	got := readBytes(t, writeParquet(t, []fixture{ids, texts("text", []any{"a"})}), "")
	if want := []Record{{Row: 1, Text: "a"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestListsOfIDsOfAnyLength(t *testing.T) {
	node := lists(t)["three levels"]
	rapid.Check(t, func(r *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.Int32Range(0, 1<<30), 0, 700), 1, 5).Draw(r, "rows")
		var ids chunk[int64]
		var want []Record
		for i, row := range rows {
			if len(row) == 0 {
				ids.defined, ids.repeated = append(ids.defined, 0), append(ids.repeated, 0)
				continue
			}
			want = append(want, Record{Row: i + 1, IDs: row})
			for k, id := range row {
				ids.values = append(ids.values, int64(id))
				ids.defined, ids.repeated = append(ids.defined, 1), append(ids.repeated, int16(min(k, 1)))
			}
		}
		encoding := rapid.SampledFrom([]parquet.Encoding{parquet.Encodings.Plain, parquet.Encodings.RLEDict, parquet.Encodings.DeltaBinaryPacked}).Draw(r, "encoding")
		version := rapid.SampledFrom(pageVersions).Draw(r, "version")
		batch := 50
		if version == parquet.DataPageV2 { // of which Arrow's writer never ends with a row that is longer than a batch
			for _, row := range rows {
				batch = max(batch, len(row))
			}
		}
		options := append(properties(compress.Codecs.Snappy, encoding, version), parquet.WithDataPageSize(500), parquet.WithBatchSize(int64(batch)))
		got := readBytes(t, writeParquet(t, []fixture{{node, []any{ids}}}, options...), "")
		if !reflect.DeepEqual(got, want) {
			r.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestSourceCanBeReadAgain(t *testing.T) {
	s, err := Open(place(t, "a.parquet", writeParquet(t, []fixture{texts("text", []any{"a", "b"}, []any{"c"})})), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		var all string
		for r, err := range s.Records() {
			if err != nil {
				t.Fatal(err)
			}
			if all += r.Text; r.Row == 2 {
				break
			}
		}
		if all != "ab" {
			t.Errorf("read %q, want ab", all)
		}
	}
}

// TestBytesAreNoText has columns of bytes that are numbers, or anything: nothing else is
// read in their place.
func TestBytesAreNoText(t *testing.T) {
	values := []any{chunk[string]{values: []string{"\xff"}}}
	decimal := schema.MustPrimitive(schema.NewPrimitiveNodeLogical("text", parquet.Repetitions.Required, schema.NewDecimalLogicalType(9, 2), parquet.Types.ByteArray, 0, -1))
	for name, node := range map[string]schema.Node{
		"decimal": decimal,
		"BSON":    schema.MustPrimitive(schema.NewPrimitiveNodeLogical("text", parquet.Repetitions.Required, schema.BSONLogicalType{}, parquet.Types.ByteArray, 0, -1)),
		"bytes":   schema.NewByteArrayNode("text", parquet.Repetitions.Required, -1),
	} {
		t.Run(name, func(t *testing.T) {
			path := place(t, "a.parquet", writeParquet(t, []fixture{{node, values}, texts("note", []any{"n"})}))
			_, err := readAll(path, "")
			wantError(t, err, path, `column "text" is not text: "text" (BYTE_ARRAY); give --column, the column that is`)
			_, err = readAll(path, "text")
			wantError(t, err, path, `column "text" holds neither text nor token ids: "text" (BYTE_ARRAY)`)
		})
	}
}

// TestDamagedParquet cuts and bends a file; pages has the cases within pages.
func TestDamagedParquet(t *testing.T) {
	good := writeParquet(t, []fixture{texts("text", []any{"a", "b", nil})})
	cases := []struct {
		name string
		bend func(b []byte) []byte
		want string
	}{
		{"magic only", func(b []byte) []byte { return b[:4] }, "4 bytes are too few for a Parquet file"},
		{"no end", func(b []byte) []byte { return b[:len(b)-1] }, "does not end in PAR1: truncated"},
		{"encrypted", func(b []byte) []byte { return append(b[:len(b)-4], "PARE"...) }, "an encrypted Parquet file"},
		{"footer longer than the file", func(b []byte) []byte { b[len(b)-5] = 0x7f; return b }, "a Parquet footer of"},
		{"empty footer", func(b []byte) []byte { return []byte("PAR1\x00\x00\x00\x00PAR1") }, ""},
		{"footer of zeros", func(b []byte) []byte { clear(b[60 : len(b)-8]); return b }, ""},
		{"pages of zeros", func(b []byte) []byte { clear(b[4:60]); return b }, `column "text": page header`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := place(t, "a.parquet", c.bend(append([]byte(nil), good...)))
			_, err := readAll(path, "")
			wantError(t, err, path, c.want)
		})
	}
}

func FuzzParquet(f *testing.F) {
	for _, codec := range codecs {
		for _, encoding := range encodings {
			for _, version := range pageVersions {
				f.Add(writeParquet(f, []fixture{texts("text", []any{"a", nil, "ab", "a"})}, properties(codec, encoding, version)...))
			}
		}
	}
	node := schema.NewInt64Node("input_ids", parquet.Repetitions.Repeated, -1)
	ids := chunk[int64]{values: []int64{5, 6, 7}, defined: []int16{1, 1, 0, 1}, repeated: []int16{0, 1, 0, 0}}
	f.Add(writeParquet(f, []fixture{{node, []any{ids}}}))
	required := textNode("text", parquet.Repetitions.Required)
	f.Add(writeParquet(f, []fixture{{required, []any{chunk[string]{values: []string{"a", "b"}}}}}))
	f.Fuzz(func(t *testing.T, content []byte) {
		s := &Source{path: "fuzzed", close: func() error { return nil }}
		if err := s.recognize(strings.NewReader(string(content)), int64(len(content)), ""); err != nil {
			return
		}
		// A few bytes can stand for billions of rows, which is allowed.
		const most = 10_000
		for r, err := range s.Records() {
			if err != nil || r.Row > most {
				return
			}
		}
	})
}
