package pages

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
	"github.com/pierrec/lz4/v4"
)

// number is a field of a Thrift structure that holds a 32-bit number; the
// first byte has how much the field's id is above that of the one before.
func number(step int, n int32) []byte {
	b := []byte{byte(step<<4 | kindInt32)}
	return binary.AppendUvarint(b, uint64(uint32(n<<1)^uint32(n>>31)))
}

// join makes one slice of bytes of several and of single bytes and texts.
func join(parts ...any) []byte {
	var all []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			all = append(all, byte(p))
		case string:
			all = append(all, p...)
		case []byte:
			all = append(all, p...)
		}
	}
	return all
}

const end = 0 // of a structure

// header is the header of a page whose own fields, at the given id, are numbers.
func header(kind, uncompressed, compressed, fieldsID int, fields ...int32) []byte {
	b := join(number(1, int32(kind)), number(1, int32(uncompressed)), number(1, int32(compressed)), (fieldsID-3)<<4|kindStruct)
	for _, f := range fields {
		b = append(b, number(1, f)...)
	}
	return append(b, end, end)
}

const (
	plain     = 0
	plainDict = 2
	rle       = 3
	bitPacked = 4
	deltaInts = 5
	deltaLen  = 6
	deltaText = 7
	rleDict   = 8
)

// v1 is a page of the first version, not compressed.
func v1(values, encoding int32, body ...any) []byte {
	b := join(body...)
	return append(header(dataPage, len(b), len(b), 5, values, encoding, rle, rle), b...)
}

// v2 is a page of the second version, not compressed.
func v2(values, encoding, defBytes int32, body ...any) []byte {
	b := join(body...)
	return append(header(dataPageV2, len(b), len(b), 8, values, 0, values, encoding, defBytes, 0), b...)
}

// dict is a dictionary of texts.
func dict(values ...string) []byte {
	var b []byte
	for _, v := range values {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
	}
	return append(header(dictionaryPage, len(b), len(b), 7, int32(len(values)), plain), b...)
}

// block is 128 as the delta encoding has it, noBits the widths of four parts
// without deltas other than the least one.
const (
	block  = "\x80\x01"
	noBits = "\x00\x00\x00\x00"
)

// sized is a text behind its length in four bytes.
func sized(b ...any) []byte {
	all := join(b...)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(all))), all...)
}

// read decodes the values of a chunk of texts by arrow's column reader: all, or
// some thousands, as a few bytes can stand for billions.
func read(column *schema.Column, kind compress.Compression, chunk []byte) (all []string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	in := newReader(io.NewSectionReader(bytes.NewReader(chunk), 0, int64(len(chunk))), column, kind)
	r := file.NewColumnReader(column, in, memory.DefaultAllocator, nil).(*file.ByteArrayColumnChunkReader)
	for range 1000 {
		values, defined := make([]parquet.ByteArray, 5), make([]int16, 5)
		levels, n, err := r.ReadBatch(5, values, defined, nil)
		if err == nil {
			err = r.Err()
		}
		if err != nil || levels == 0 {
			return all, err
		}
		for _, v := range values[:n] {
			all = append(all, string(v))
		}
	}
	return all, nil
}

func column(repetition parquet.Repetition) *schema.Column {
	root := schema.MustGroup(schema.NewGroupNode("schema", parquet.Repetitions.Required, schema.FieldList{
		schema.NewByteArrayNode("text", repetition, -1),
	}, -1))
	return schema.NewSchema(root).Column(0)
}

var (
	required = column(parquet.Repetitions.Required)
	optional = column(parquet.Repetitions.Optional)
)

func TestPages(t *testing.T) {
	cases := []struct {
		name   string
		column *schema.Column
		chunk  []byte
		want   string // the values with bars between
	}{
		{"plain", required, v1(2, plain, sized("a"), sized("bc")), "a|bc"},
		{"second version", required, v2(2, plain, 0, sized("a"), sized("bc")), "a|bc"},
		{"two pages", required, join(v1(1, plain, sized("a")), v2(1, plain, 0, sized("b"))), "a|b"},
		{"empty page between", required, join(v1(1, plain, sized("a")), v1(0, plain), v1(1, plain, sized("b"))), "a|b"},
		{"index page between", required, join(v1(1, plain, sized("a")), header(1, 3, 3, 6), "???", v1(1, plain, sized("b"))), "a|b"},
		{"unknown fields", required, join(
			number(1, dataPage), number(1, 5), number(1, 5), number(1, 77), // a checksum
			1<<4|kindStruct, number(1, 1), number(1, plain), number(1, rle), number(1, rle),
			1<<4|kindStruct, 1<<4|kindBinary, 2, "xy", 2<<4|kindInt64, 4, 1<<4|kindTrue, 1<<4|kindDouble, "12345678",
			1<<4|kindList, 2<<4|kindBinary, 1, "x", 0, 1<<4|kindMap, 1, kindByte<<4|kindTrue, 7, 1, 1<<4|kindSet, 1<<4|kindTrue, 1,
			1<<4|kindUUID, "0123456789abcdef", end, end, end, sized("a")), "a"},
		{"nothing", optional, nil, ""},
		{"levels in a run", optional, v1(3, plain, sized(3<<1, 1), sized("a"), sized("b"), sized("c")), "a|b|c"},
		{"levels packed", optional, v1(4, plain, sized(1<<1|1, 0b1010), sized("a"), sized("b")), "a|b"},
		{"all null", optional, v2(4, plain, 2, 4<<1, 0), ""},
		{"dictionary", required, join(dict("a", "b"), v1(3, rleDict, 1, 1<<1|1, 0b010)), "a|b|a"},
		{"old name of the dictionary encoding", required, join(dict("a", "b"), v1(2, plainDict, 1, 2<<1, 1)), "b|b"},
		{"dictionary of one, no bits, a run", required, join(dict("a"), v1(3, rleDict, 0, 3<<1)), "a|a|a"},
		{"dictionary of one, no bits, packed", required, join(dict("a"), v1(3, rleDict, 0, 1<<1|1)), "a|a|a"},
		{"dictionary with wide indexes", required, join(dict("a", "b"), v1(2, rleDict, 32, 2<<1, 1, 0, 0, 0)), "b|b"},
		{"lengths by delta", required, v1(3, deltaLen, block, 4, 3, 2, 0, noBits, "abc"), "a|b|c"},
		{"prefixes by delta", required, v1(2, deltaText, block, 4, 2, 0, 2, noBits, block, 4, 2, 4, 1, noBits, "abc"), "ab|ac"},
		{"no values by delta", optional, v1(2, deltaLen, sized(2<<1, 0)), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(c.column, compress.Codecs.Uncompressed, c.chunk)
			if err != nil || strings.Join(got, "|") != c.want {
				t.Errorf("read %q, %v, want %q", strings.Join(got, "|"), err, c.want)
			}
		})
	}
}

// TestDamagedPages are pages that lie. Each would make arrow's readers loop
// without end, allocate what the page says, or return what is not there.
func TestDamagedPages(t *testing.T) {
	huge := int32(1<<31 - 1)
	cases := []struct {
		name   string
		column *schema.Column
		chunk  []byte
		want   string
	}{
		{"header cut off", required, v1(1, plain, sized("a"))[:5], "page header: unexpected EOF"},
		{"body cut off", required, v1(1, plain, sized("a"))[:20], "a page of 5 bytes, the column has"},
		{"huge page", required, header(dataPage, 5, 1<<31-1, 5, 1, plain, rle, rle), "a page of 2147483647 bytes, the column has 0 left"},
		{"huge page after decompression", required, header(dataPage, 1<<31-1, 0, 5, 1, plain, rle, rle), "a page of 2147483647 bytes, at most"},
		{"other size", required, join(header(dataPage, 9, 1, 5, 1, plain, rle, rle), "a"), "a page has another size than its header says"},
		{"negative size", required, join(number(1, dataPage), number(1, -1), number(1, 0), end), "the fields of its type are missing"},
		{"negative values", required, header(dataPage, 0, 0, 5, -1, plain, rle, rle), "page header: a negative number"},
		{"fields of another type of page", required, header(dataPage, 0, 0, 8, 1, plain, rle, rle), "the fields of its type are missing"},
		{"number of 64 bits", required, join(1<<4|kindInt32, "\xff\xff\xff\xff\xff\xff\x01", end), "a number has more than 32 bits"},
		{"number without end", required, join(1<<4|kindInt32, strings.Repeat("\xff", 20)), "page header: "},
		{"text for a number", required, join(1<<4|kindBinary, 1, "x", end), "a field is not of its type"},
		{"long binary", required, join(9<<4|kindBinary, "\xff\xff\xff\xff\x0f", end), "a value of 4294967295 bytes, 1 are left"},
		{"long list", required, join(9<<4|kindList, 0xf0|kindByte, "\xff\xff\xff\xff\x0f", end), "a list of 4294967295 elements in 1 bytes"},
		{"long map", required, join(9<<4|kindMap, "\xff\xff\xff\xff\x0f", 0x33, end), "a map of 4294967295 pairs in 2 bytes"},
		{"deep nesting", required, append([]byte{9<<4 | kindStruct}, bytes.Repeat([]byte{1<<4 | kindStruct}, 100_000)...), "nested too deeply"},
		{"deep lists", required, append([]byte{9<<4 | kindList}, bytes.Repeat([]byte{1<<4 | kindList}, 100_000)...), "nested too deeply"},
		{"unknown kind", required, join(9<<4|14, end), "a value of kind 14"},

		{"no levels", optional, v1(1, plain), "a run of levels or indexes is cut off or empty"},
		{"too few levels", optional, v1(9, plain, sized(8<<1, 0)), "a run of levels or indexes is cut off or empty"},
		{"too few levels in the second version", optional, v2(9, plain, 2, 8<<1, 0), "a run of levels or indexes is cut off or empty"},
		{"empty run", optional, v1(1, plain, sized(0, 0)), "a run of levels or indexes is cut off or empty"},
		{"packed levels cut off", optional, v1(16, plain, sized(2<<1|1, 0)), "a run of levels or indexes is cut off or empty"},
		{"levels longer than the page", optional, v1(1, plain, "\xff\xff\xff\xff"), "a run of levels or indexes is cut off or empty"},
		{"levels longer than the second version's page", optional, join(header(dataPageV2, 1, 1, 8, 1, 0, 1, plain, 2, 0), 0), "levels of 2 bytes in a page of 1"},
		{"level too high", optional, v1(1, plain, sized(1<<1, 2)), "a level of 2 in a column whose highest is 1"},
		{"old levels", optional, join(header(dataPage, 1, 1, 5, 1, plain, bitPacked, rle), 0), "levels in the old encoding BIT_PACKED are not supported"},

		{"value missing", required, v1(2, plain, sized("a")), "eof reading bytearray"},
		{"value longer than the page", required, v1(1, plain, "\xff\xff\xff\x7fa"), "eof reading bytearray"},
		{"indexes without a dictionary", required, v1(1, rleDict, 1, 1<<1, 0), "indexes of a dictionary that is not there"},
		{"no indexes", required, join(dict("a"), v1(1, rleDict)), "indexes of a dictionary without a bit width"},
		{"too few indexes", required, join(dict("a"), v1(2, rleDict, 1, 1<<1, 0)), "a run of levels or indexes is cut off or empty"},
		{"index too high", required, join(dict("a"), v1(1, rleDict, 1, 1<<1, 1)), "index 1 of a dictionary of 1 values"},
		{"huge index", required, join(dict("a"), v1(1, rleDict, 32, 1<<1, "\xff\xff\xff\x7f")), "index 2147483647 of a dictionary of 1 values"},
		{"huge dictionary", required, header(dictionaryPage, 0, 0, 7, huge, plain), "a dictionary of 2147483647 values in 0 bytes"},
		{"two dictionaries", required, join(dict("a"), dict("b"), v1(1, rleDict, 1, 1<<1, 0)), "more than one dictionary"},
		{"wide indexes", required, join(dict("a"), v1(1, rleDict, 33, 1<<1, 0)), "indexes of a dictionary without a bit width"},
		{"unknown encoding", required, v1(1, 99, "a"), "unknown encoding"},

		{"no lengths", required, v1(1, deltaLen), "delta-encoded numbers are cut off"},
		{"lengths cut off", required, v1(3, deltaLen, block, 4, 3, 2), "delta-encoded numbers are cut off"},
		{"widths cut off", required, v1(3, deltaLen, block, 4, 3, 2, 0, 0), "delta-encoded numbers are cut off"},
		{"bits cut off", required, v1(3, deltaLen, block, 4, 3, 2, 0, 1, 0, 0, 0, "abc"), "delta-encoded numbers are cut off"},
		{"wide bits", required, v1(3, deltaLen, block, 4, 3, 2, 0, 65, 0, 0, 0, strings.Repeat("x", 500)), "delta-encoded numbers are cut off"},
		{"huge block", required, v1(1, deltaLen, "\x80\x80\x80\x80\x08", 1, 1, 2), "in blocks of 2147483648 in 1 parts"},
		{"no parts", required, v1(1, deltaLen, block, 0, 1, 2), "in blocks of 128 in 0 parts"},
		{"other count", required, v1(1, deltaLen, block, 4, "\xff\xff\xff\xff\x0f", 2), "4294967295 delta-encoded numbers for 1 values"},
		{"negative length", required, v1(1, deltaLen, block, 4, 1, 1, "abc"), "panic: runtime error"},
		{"length beyond the page", required, v1(1, deltaLen, block, 4, 1, 200, 1, "abc"), "panic: runtime error"},
		{"prefix without a value", required, v1(2, deltaText, block, 4, 2, 0, 8, noBits, block, 4, 2, 2, 0, noBits, "abc"), "panic: runtime error"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(c.column, compress.Codecs.Uncompressed, c.chunk)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("read %q, %v\nwant the error %q", got, err, c.want)
			}
		})
	}
}

// TestPackedPages compresses pages whose headers say the right size, or not.
func TestPackedPages(t *testing.T) {
	text := []byte(strings.Repeat("a packed page ", 1000))
	for _, kind := range []compress.Compression{compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Zstd} {
		t.Run(kind.String(), func(t *testing.T) {
			c, err := codec(kind)
			if err != nil {
				t.Fatal(err)
			}
			packed := c.Encode(make([]byte, c.CompressBound(int64(len(text)))), text)
			checkPacked(t, kind, packed, text)
		})
	}
	for _, kind := range []compress.Compression{compress.Codecs.Lzo, 99} {
		if _, err := codec(kind); err == nil || !strings.Contains(err.Error(), "is not supported: write the file again with zstd") {
			t.Errorf("codec %d: error %v", kind, err)
		}
	}
}

// TestLZ4 packs a page in every way that goes by the name.
func TestLZ4(t *testing.T) {
	text := []byte(strings.Repeat("a packed page ", 1000))
	pack := func(text []byte) []byte {
		packed := make([]byte, lz4.CompressBlockBound(len(text)))
		n, err := lz4.CompressBlock(text, packed, nil)
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		return packed[:n]
	}
	length := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	// part is a length and a part of a block.
	part := func(text []byte) []byte { packed := pack(text); return join(length(len(packed)), packed) }
	one, half := pack(text), len(text)/2
	for name, c := range map[string]struct {
		kind   compress.Compression
		packed []byte
	}{
		"raw":                    {lz4Raw, one},
		"Hadoop, one block":      {compress.Codecs.Lz4, join(length(len(text)), part(text))},
		"Hadoop, two blocks":     {compress.Codecs.Lz4, join(length(half), part(text[:half]), length(half), part(text[half:]))},
		"Hadoop, block in parts": {compress.Codecs.Lz4, join(length(len(text)), part(text[:100]), part(text[100:]))},
		"early Arrow":            {compress.Codecs.Lz4, one},
	} {
		t.Run(name, func(t *testing.T) { checkPacked(t, c.kind, c.packed, text) })
	}
	for name, packed := range map[string][]byte{
		"block that is too large":    join(length(len(text)+1), part(text)),
		"block that is not full":     join(length(len(text)), part(text[1:])),
		"part that is cut off":       join(length(len(text)), length(len(one)+1), one),
		"part of nothing":            join(length(len(text)), length(0), length(0)),
		"length that is cut off":     join(length(len(text)), part(text), 0, 0),
		"lengths of four gigabytes":  bytes.Repeat([]byte{0xff}, 100),
		"blocks of nothing, forever": make([]byte, 4000),
	} {
		if got, err := decompress(compress.Codecs.Lz4, packed, len(text)); err == nil {
			t.Errorf("%s: %d bytes, no error", name, len(got))
		}
	}
}

// checkPacked decompresses text, and what is not quite it.
func checkPacked(t *testing.T, kind compress.Compression, packed, text []byte) {
	t.Helper()
	if got, err := decompress(kind, packed, len(text)); err != nil || !bytes.Equal(got, text) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	for _, size := range []int{0, len(text) - 1, len(text) + 1, maxPage} {
		if _, err := decompress(kind, packed, size); err == nil {
			t.Errorf("no error for a size of %d", size)
		}
	}
	if _, err := decompress(kind, packed[:len(packed)/2], len(text)); err == nil {
		t.Error("no error for half a page")
	}
	if _, err := decompress(kind, []byte("garbage"), len(text)); err == nil {
		t.Error("no error for garbage")
	}
	if got, err := decompress(kind, nil, 0); err != nil || len(got) != 0 {
		t.Errorf("nothing gives %q, %v", got, err)
	}
}

func TestFooter(t *testing.T) {
	footer := func(b []byte) []byte {
		return join("PAR1", b, binary.LittleEndian.AppendUint32(nil, uint32(len(b))), "PAR1")
	}
	cases := []struct {
		name string
		file []byte
		want string
	}{
		{"good", footer(join(number(1, 2), 1<<4|kindList, 1<<4|kindStruct, 4<<4|kindBinary, 1, "a", end, end)), ""},
		{"too short", []byte("PAR1"), "4 bytes are too few"},
		{"long list", footer(join(2<<4|kindList, 0xf0|kindStruct, "\xff\xff\xff\x7f", end)), "a list of 268435455 elements in 1 bytes"},
		{"long schema", footer(join(2<<4|kindList, 0xf0|kindStruct, "\x91\x4e", bytes.Repeat([]byte{end}, 10_001), end)), "a schema of 10001 elements"},
		{"cut off", footer(join(2<<4|kindList, 1<<4|kindStruct)), "damaged Parquet footer: a list of 1 elements in 0 bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Open(bytes.NewReader(c.file), int64(len(c.file)))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestUnknownLogicalTypes takes out of a footer what arrow does not know, and
// nothing else.
func TestUnknownLogicalTypes(t *testing.T) {
	file := func(logical ...any) []byte {
		column := join(4<<4|kindBinary, 1, "a", join(logical...), end)
		footer := join(number(1, 2), 1<<4|kindList, 2<<4|kindStruct, column, 4<<4|kindBinary, 1, "b", end, number(1, 3), end)
		return join("PAR1data", footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), "PAR1")
	}
	const logical = 6<<4 | kindStruct // field 10, behind the name
	const gone = 6<<4 | kindTrue
	cases := []struct {
		name       string
		have, want []any
	}{
		{"none", nil, nil},
		{"string", []any{logical, 1<<4 | kindStruct, end, end}, []any{logical, 1<<4 | kindStruct, end, end}},
		{"float16", []any{logical, 15<<4 | kindStruct, end, end}, []any{logical, 15<<4 | kindStruct, end, end}},
		{"variant", []any{logical, kindStruct, 32, 1<<4 | kindByte, 1, end, end}, []any{gone}},
		{"geometry", []any{logical, kindStruct, 34, 1<<4 | kindBinary, 4, "EPSG", end, end}, []any{gone}},
		{"an empty one", []any{logical, end}, []any{gone}},
		{"before another field", []any{logical, kindStruct, 34, end, end, 1<<4 | kindInt32, 2}, []any{gone, 1<<4 | kindInt32, 2}},
		{"with a long head", []any{kindStruct, 20, kindStruct, 34, end, end}, []any{kindTrue, 20}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			have, want := file(c.have...), file(c.want...)
			in, size, err := Open(bytes.NewReader(have), int64(len(have)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(io.NewSectionReader(in, 0, size))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("got  %x, %v\nwant %x", got, err, want)
			}
			if err := iotest.TestReader(io.NewSectionReader(in, 0, size), want); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzFooter(f *testing.F) {
	f.Add(join("PAR1", number(1, 2), 1<<4|kindList, 1<<4|kindStruct, 4<<4|kindBinary, 1, "a", 6<<4|kindStruct, kindStruct, 34, end, end, end, end, 17, 0, 0, 0, "PAR1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		in, size, err := Open(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return
		}
		again, sameSize, err := Open(in, size)
		if err != nil || again != in || sameSize != size {
			t.Errorf("what Open returns is not what it accepts as it is: %v", err)
		}
	})
}

func FuzzPages(f *testing.F) {
	f.Add(join(dict("a", "b"), v1(3, rleDict, 1, 1<<1|1, 0b010)), uint8(0), false)
	f.Add(v1(4, plain, sized(1<<1|1, 0b1010), sized("a"), sized("b")), uint8(0), true)
	f.Add(v2(4, plain, 2, 4<<1, 0), uint8(0), true)
	f.Add(v1(3, deltaLen, block, 4, 3, 2, 0, noBits, "abc"), uint8(0), false)
	f.Add(v1(2, deltaText, block, 4, 2, 0, 2, noBits, block, 4, 2, 4, 1, noBits, "abc"), uint8(0), false)
	f.Fuzz(func(t *testing.T, chunk []byte, kind uint8, nulls bool) {
		c := required
		if nulls {
			c = optional
		}
		if _, err := read(c, compress.Compression(kind), chunk); err != nil && strings.Contains(err.Error(), "makeslice") {
			t.Errorf("an absurd allocation: %v", err)
		}
	})
}
