// Command calibset makes calib/builtin.parquet, the calibration set that is
// embedded in the program, from the texts of a folder:
//
//	go run ./scripts/calibset TEXTS calib/builtin.parquet
//
// Every NAME.txt of the folder is a part, whose records are separated by lines
// of <|doc|>. The file has a row for each record, with the columns text and
// source, NAME. Rows of all parts are interleaved so that any stretch of the
// file has every part in the proportion of its bytes. The same texts give the
// same file.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"exl2/internal/atomicfile"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: calibset TEXTS OUTPUT.parquet")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "calibset:", err)
		os.Exit(1)
	}
}

func run(folder, output string) error {
	data, err := build(folder)
	if err != nil {
		return err
	}
	return atomicfile.Write(output, data)
}

// build returns the bytes of the set.
func build(folder string) ([]byte, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no *.txt files", folder)
	}
	var records []record
	for _, path := range paths {
		part, err := readPart(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		records = append(records, part...)
	}
	return encode(interleave(records))
}

// A record is a text of a part.
type record struct {
	text, source string

	// place is where the middle of the text lies in its part, from 0 to 1.
	place float64
}

// separator stands between the records of a part.
const separator = "\n<|doc|>\n"

// readPart reads the records of a file, without the line breaks around them.
func readPart(path string) ([]record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	source := strings.TrimSuffix(filepath.Base(path), ".txt")
	var part []record
	total := 0
	for text := range strings.SplitSeq(string(data), separator) {
		text = strings.Trim(text, "\n")
		if text == "" {
			return nil, errors.New("an empty record")
		}
		part = append(part, record{text: text, source: source, place: float64(total) + float64(len(text))/2})
		total += len(text)
	}
	for i := range part {
		part[i].place /= float64(total)
	}
	return part, nil
}

// interleave sorts records by their place in their part.
func interleave(records []record) []record {
	slices.SortStableFunc(records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.source, b.source))
	})
	return records
}

// encode writes the records as one row group, compressed as far as zstd goes.
func encode(records []record) ([]byte, error) {
	const bestLevel = 19
	properties := parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithCompressionLevel(bestLevel),
		parquet.WithDictionaryFor("text", false),
		parquet.WithStats(false),
	)
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, schema.FieldList{
		textNode("text"), textNode("source"),
	}, -1)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := file.NewParquetWriter(&out, root, file.WithWriterProps(properties))
	group := w.AppendRowGroup()
	for _, value := range []func(record) string{
		func(r record) string { return r.text },
		func(r record) string { return r.source },
	} {
		if err := writeColumn(group, records, value); err != nil {
			return nil, err
		}
	}
	if err := group.Close(); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func textNode(name string) schema.Node {
	return schema.Must(schema.NewPrimitiveNodeLogical(name, parquet.Repetitions.Required,
		schema.StringLogicalType{}, parquet.Types.ByteArray, -1, -1))
}

func writeColumn(group file.SerialRowGroupWriter, records []record, value func(record) string) error {
	values := make([]parquet.ByteArray, len(records))
	for i, r := range records {
		values[i] = parquet.ByteArray(value(r))
	}
	column, err := group.NextColumn()
	if err != nil {
		return err
	}
	if _, err := column.(*file.ByteArrayColumnChunkWriter).WriteBatch(values, nil, nil); err != nil {
		return err
	}
	return column.Close()
}
