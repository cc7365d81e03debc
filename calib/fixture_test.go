package calib

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// A fixture is a column for a Parquet file that a test writes: a node of the
// schema and its values in row groups.
type fixture struct {
	node   schema.Node
	groups []any // []chunk[T]
}

// A chunk is the values of one row group with their levels, if they have any.
type chunk[T any] struct {
	values            []T
	defined, repeated []int16
}

// writeParquet returns the bytes of a file with the columns.
func writeParquet(t testing.TB, columns []fixture, options ...parquet.WriterProperty) []byte {
	t.Helper()
	var nodes schema.FieldList
	for _, c := range columns {
		nodes = append(nodes, c.node)
	}
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, nodes, -1)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := file.NewParquetWriter(&out, root, file.WithWriterProps(parquet.NewWriterProperties(options...)))
	for g := range columns[0].groups {
		group := w.AppendRowGroup()
		for _, c := range columns {
			column, err := group.NextColumn()
			if err != nil {
				t.Fatal(err)
			}
			writeChunk(t, column, c.groups[g])
			if err := column.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := group.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func writeChunk(t testing.TB, column file.ColumnChunkWriter, values any) {
	t.Helper()
	var err error
	switch c := values.(type) {
	case chunk[string]:
		texts := make([]parquet.ByteArray, len(c.values))
		for i, v := range c.values {
			texts[i] = parquet.ByteArray(v)
		}
		_, err = column.(*file.ByteArrayColumnChunkWriter).WriteBatch(texts, c.defined, c.repeated)
	case chunk[int32]:
		_, err = column.(*file.Int32ColumnChunkWriter).WriteBatch(c.values, c.defined, c.repeated)
	case chunk[int64]:
		_, err = column.(*file.Int64ColumnChunkWriter).WriteBatch(c.values, c.defined, c.repeated)
	default:
		t.Fatalf("no column of %T", values)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// textNode is a column of strings in a schema.
func textNode(name string, repetition parquet.Repetition) schema.Node {
	return schema.MustPrimitive(schema.NewPrimitiveNodeLogical(name, repetition, schema.StringLogicalType{}, parquet.Types.ByteArray, 0, -1))
}

// texts is a column of texts; nulls are nil.
func texts(name string, groups ...[]any) fixture {
	f := fixture{node: textNode(name, parquet.Repetitions.Optional)}
	for _, values := range groups {
		var c chunk[string]
		for _, v := range values {
			if v == nil {
				c.defined = append(c.defined, 0)
			} else {
				c.defined = append(c.defined, 1)
				c.values = append(c.values, v.(string))
			}
		}
		f.groups = append(f.groups, c)
	}
	return f
}

// place writes a file of a test and returns its path.
func place(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
