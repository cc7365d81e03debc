package pages

import (
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/parquet"
)

// check makes sure that a page has the levels and values that it promises.
func (r *Reader) check(h pageHeader, repeated, defined, values []byte) error {
	count := int(h.values)
	if most := r.column.MaxRepetitionLevel(); most > 0 {
		if _, err := checkLevels(repeated, count, most); err != nil {
			return err
		}
	}
	if most := r.column.MaxDefinitionLevel(); most > 0 {
		full, err := checkLevels(defined, count, most)
		if err != nil {
			return err
		}
		count = full
	}
	return r.checkValues(parquet.Encoding(h.encoding), values, count)
}

// checkValues makes sure that data holds count values. What it does not check
// is an error or a panic in arrow, not an endless loop or a huge allocation.
func (r *Reader) checkValues(encoding parquet.Encoding, data []byte, count int) error {
	switch encoding {
	case parquet.Encodings.Plain:
		if int64(count)*r.width(0) > int64(len(data)) {
			return fmt.Errorf("%d numbers in %d bytes", count, len(data))
		}
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		if r.dictionary < 0 {
			return errors.New("indexes of a dictionary that is not there")
		}
		return checkIndexes(data, count, r.dictionary)
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaLengthByteArray, parquet.Encodings.DeltaByteArray:
		return checkDeltas(encoding, data, count)
	}
	return nil
}

// checkDeltas checks the lengths of texts, or the numbers, that are
// delta-encoded: twice for texts that share prefixes.
func checkDeltas(encoding parquet.Encoding, data []byte, count int) error {
	if count == 0 {
		return nil
	}
	n, err := checkDelta(data, count)
	if err == nil && encoding == parquet.Encodings.DeltaByteArray {
		_, err = checkDelta(data[n:], count)
	}
	return err
}
