package calib

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Tokenizer makes token ids of text by itself: no BOS is added. It must allow
// concurrent calls.
type Tokenizer interface {
	EncodePlain(text string) ([]int32, error)
}

// A Cut says how rows are made.
type Cut struct {
	Tokenizer Tokenizer // may be nil for sources of token ids
	Vocab     int       // ids must be below
	Rows      int       // how many are wanted; 0 is as many as there are
	Length    int       // tokens of a row
	Head      []int32   // begins every row and counts in its Length: a BOS, or nothing
}

// Rows returns rows for calibration: every record is tokenized alone, the ids
// are joined, and cut into rows. What is left of the last row is dropped, so
// fewer rows than wanted are what the source has; none is an error. The
// source is read no further than needed.
func Rows(s *Source, c Cut) ([][]int32, error) {
	if err := c.check(s); err != nil {
		return nil, err
	}
	tokens := c.tokens
	if s.plain != nil {
		tokens = c.joinedTokens // one record either way, of which only the beginning may be read
	}
	ids, err := tokens(s)
	if err != nil {
		return nil, err
	}
	return c.cut(s, ids)
}

// Joined returns rows for measuring perplexity: the records of the source,
// joined by blank lines, are one text that is tokenized once and cut as by
// Rows. Token ids are joined as they are.
func Joined(s *Source, c Cut) ([][]int32, error) {
	if s.HasTokens() {
		return Rows(s, c)
	}
	if err := c.check(s); err != nil {
		return nil, err
	}
	ids, err := c.joinedTokens(s)
	if err != nil {
		return nil, err
	}
	return c.cut(s, ids)
}

// check refuses what no rows can be made of.
func (c Cut) check(s *Source) error {
	switch {
	case c.Rows < 0:
		return fmt.Errorf("%d rows are too few", c.Rows)
	case c.Length <= len(c.Head):
		return fmt.Errorf("rows of %d tokens are too short", c.Length)
	case c.Vocab <= 0:
		return errors.New("a vocabulary without tokens")
	case c.Tokenizer == nil && !s.HasTokens():
		return fmt.Errorf("%s: holds text, and there is no tokenizer; give token ids in a column %s", s.path, idsColumn)
	}
	return nil
}

// room is how many tokens of the source a row takes.
func (c Cut) room() int { return c.Length - len(c.Head) }

// wanted is how many tokens all rows take.
func (c Cut) wanted() int {
	if c.Rows == 0 || c.Rows > math.MaxInt/c.Length {
		return math.MaxInt
	}
	return c.Rows * c.room()
}

// cut makes rows of ids.
func (c Cut) cut(s *Source, ids []int32) ([][]int32, error) {
	n := len(ids) / c.room()
	if c.Rows > 0 {
		n = min(n, c.Rows)
	}
	if n == 0 {
		return nil, fmt.Errorf("%s: %d tokens, a row needs %d: give more text or ask for shorter rows", s.path, len(ids), c.room())
	}
	rows := make([][]int32, n)
	for i := range rows {
		rows[i] = slices.Concat(c.Head, ids[i*c.room():(i+1)*c.room()])
	}
	return rows, nil
}
