package calib

import (
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// readBytes sets which columns of bytes are text though the file does not say so, as old
// writers (Hive, Spark, Impala) do not: those of a file that calls nothing text, and the
// one that is named, or is called as texts are, wherever the values are UTF-8. Other bytes
// are pictures, numbers, and whatever else programs keep in files.
func (p *parquetFile) readBytes(all []leaf, column string) {
	names := textColumns
	if column != "" {
		names = []string{column}
	}
	silent := !slices.ContainsFunc(all, leaf.isSaidText)
	for i, l := range all {
		if l.isBytes() && (silent || slices.ContainsFunc(names, l.within)) {
			all[i].bytes = p.holdsUTF8(l)
		}
	}
}

// isBytes tells whether the values are bytes of which the file says nothing.
func (l leaf) isBytes() bool {
	switch l.LogicalType().(type) {
	case nil, schema.NoLogicalType, schema.UnknownLogicalType:
		return l.PhysicalType() == parquet.Types.ByteArray
	}
	return false
}

// holdsUTF8 tells whether the first values of a leaf are UTF-8 without zeros. Where none can
// be read, they are met again by those who read.
func (p *parquetFile) holdsUTF8(l leaf) bool {
	sample := *p
	sample.choice = choice{leaves: []leaf{l}}
	in := &parquetRecords{parquetFile: &sample}
	for range looked {
		values, err := in.values()
		if err != nil {
			break
		}
		for _, t := range values.texts {
			if !utf8.ValidString(t.text) || slices.Contains([]byte(t.text), 0) {
				return false
			}
		}
	}
	return true
}
