package calib

import (
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/parquet/file"
)

// A batchReader is arrow's reader of one leaf of a row group.
type batchReader[T any] interface {
	file.ColumnChunkReader
	ReadBatch(count int64, values []T, defined, repeated []int16) (levels int64, read int, err error)
}

// A column reads the values of one leaf, row by row.
type column[T any] struct {
	leaf
	in batchReader[T]

	values            []T
	defined, repeated []int16
	n, at, value      int // levels read, next level, next value
}

// batch is how many values are read at a time.
const batch = 256

func newColumn[T any](l leaf, in batchReader[T]) *column[T] {
	return &column[T]{
		leaf: l, in: in,
		values: make([]T, batch), defined: make([]int16, batch), repeated: make([]int16, batch),
	}
}

// fill reads the next batch when the last is used up. At the end n is 0.
func (c *column[T]) fill() error {
	if c.at < c.n {
		return nil
	}
	levels, read, err := c.in.ReadBatch(batch, c.values, c.defined, c.repeated)
	if err == nil {
		err = c.in.Err()
	}
	if err != nil {
		return err
	}
	c.n, c.at, c.value = int(levels), 0, 0
	full := c.n
	if most := c.MaxDefinitionLevel(); most > 0 {
		full = 0
		for _, level := range c.defined[:c.n] {
			if level == most {
				full++
			}
		}
	}
	if full != read {
		return fmt.Errorf("%d values for %d places", read, full)
	}
	return nil
}

// An element is one value of a row.
type element[T any] struct {
	value T
	null  bool
	at    int // in the outermost list, from 0
}

// row calls visit for the elements of the next row; a row that is null or an
// empty list has none.
func (c *column[T]) row(visit func(element[T]) error) error {
	if err := c.fill(); err != nil {
		return err
	}
	if c.n == 0 {
		return errors.New("it ends too early")
	}
	if c.MaxRepetitionLevel() > 0 && c.repeated[c.at] != 0 {
		return errors.New("it begins within a row")
	}
	var e element[T]
	for {
		if err := c.element(&e, visit); err != nil {
			return err
		}
		if err := c.fill(); err != nil {
			return err
		}
		if c.n == 0 || c.MaxRepetitionLevel() == 0 || c.repeated[c.at] == 0 {
			return nil
		}
		if c.repeated[c.at] == 1 {
			e.at++
		}
	}
}

// element visits what stands at the next level, if anything.
func (c *column[T]) element(e *element[T], visit func(element[T]) error) error {
	level, most := c.defined[c.at], c.MaxDefinitionLevel()
	c.at++
	var none T
	switch {
	case most == 0 || level == most:
		e.value, e.null = c.values[c.value], false
		c.value++
	case c.MaxRepetitionLevel() > 0 && level >= c.present:
		e.value, e.null = none, true
	default:
		return nil
	}
	return visit(*e)
}

// done makes sure that nothing follows the last row.
func (c *column[T]) done() error {
	if err := c.fill(); err != nil {
		return err
	}
	if c.n != 0 {
		return errors.New("it has more rows than its row group")
	}
	return nil
}
