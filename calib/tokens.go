package calib

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"exl2/internal/parallel"
)

// tokens returns the ids of the records, at least as many as are wanted or all.
func (c Cut) tokens(s *Source) ([]int32, error) {
	const smallest, largest = 1 << 14, 1 << 20 // bytes of text to tokenize at a time
	var ids []int32
	var waiting []Record
	size := 0
	flush := func() error {
		all, err := c.encode(waiting, c.wanted()-len(ids))
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		for i, encoded := range all {
			if err := c.checkIDs(s, waiting[i].Row, encoded); err != nil {
				return err
			}
			ids = append(ids, encoded...)
		}
		waiting, size = waiting[:0], 0
		return nil
	}
	for r, err := range s.Records() {
		if err != nil {
			return nil, err
		}
		waiting = append(waiting, r)
		size += len(r.Text) + 4*len(r.IDs) + 1
		if size < min(largest, max(smallest, times(8, c.wanted()-len(ids)))) {
			continue
		}
		if err := flush(); err != nil {
			return nil, err
		}
		if len(ids) >= c.wanted() {
			return ids, nil
		}
	}
	err := flush()
	return ids, err
}

// encode returns the ids of every record. Records are shared out to all cores;
// the result does not depend on how.
func (c Cut) encode(waiting []Record, wanted int) ([][]int32, error) {
	encoded, errs := make([][]int32, len(waiting)), make([]error, len(waiting))
	var failed atomic.Bool // the rest need not be done
	parallel.For(len(waiting), func(i int) {
		if encoded[i] = waiting[i].IDs; encoded[i] == nil && !failed.Load() {
			encoded[i], errs[i] = c.encodeText(waiting[i].Text, wanted)
		}
		if errs[i] != nil {
			failed.Store(true)
		}
	})
	return encoded, cmp.Or(errs...)
}

// A text is tokenized whole unless it is so long that the tokens which are
// wanted come from its first part for certain: from textPerToken bytes for
// each and textSpare more.
const (
	textPerToken = 32
	textSpare    = 1 << 16
)

// enough tells whether the first wanted of n tokens, made from a text that was
// cut off, are those of the whole text: what a cut changes is near it.
func enough(n, wanted int) bool { return wanted <= n-n/4 }

// encodeText returns the ids of a text, or if it is very long the first of
// them, wanted at least.
func (c Cut) encodeText(text string, wanted int) ([]int32, error) {
	for length := plus(times(textPerToken, wanted), textSpare); length < len(text); length = times(4, length) {
		ids, err := c.Tokenizer.EncodePlain(text[:runeStart(text, length)])
		if err != nil || enough(len(ids), wanted) {
			return ids, err
		}
	}
	return c.Tokenizer.EncodePlain(text)
}

// joinedTokens returns the ids of all records as one text, reading and
// tokenizing little more of the source than is wanted: what is read is first a
// sample, then by the sample's bytes a token as much as should do.
func (c Cut) joinedTokens(s *Source) ([]int32, error) {
	for length := textSpare; ; {
		text, whole, err := s.joined(length)
		if err != nil {
			return nil, err
		}
		ids, err := c.Tokenizer.EncodePlain(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		if whole || enough(len(ids), c.wanted()) {
			return ids, c.checkIDs(s, 0, ids)
		}
		length = longer(length, len(text), len(ids), c.wanted())
	}
}

// longer returns how much text to take for the wanted tokens when length, n
// tokens, was too little.
func longer(length, bytes, n, wanted int) int {
	const spare = 1.5 // enough takes a third more
	need := spare * float64(bytes) / float64(max(n, 1)) * float64(wanted)
	if need > math.MaxInt/2 {
		return math.MaxInt
	}
	return max(times(2, length), plus(int(need), textSpare))
}

// separator stands between records that are joined.
const separator = "\n\n"

// joined returns all records with blank lines between, or the first length
// bytes of them; whole says which.
func (s *Source) joined(length int) (text string, whole bool, err error) {
	if s.plain != nil {
		text, whole, err = s.plain.beginning(length)
		if err != nil {
			err = fmt.Errorf("%s: %w", s.path, err)
		}
		return text, whole, err
	}
	var all strings.Builder
	first := true
	for r, err := range s.Records() {
		if err != nil {
			return "", false, err
		}
		if !first {
			all.WriteString(separator)
		}
		first = false
		all.WriteString(r.Text)
		if all.Len() > length {
			return all.String()[:runeStart(all.String(), length)], false, nil
		}
	}
	return all.String(), true, nil
}

// runeStart returns the last place up to i at which a character begins.
func runeStart(text string, i int) int {
	for i > 0 && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

// checkIDs makes sure that the ids of a row, or of all if row is 0, are in the
// vocabulary.
func (c Cut) checkIDs(s *Source, row int, ids []int32) error {
	for _, id := range ids {
		if id >= 0 && int(id) < c.Vocab {
			continue
		}
		where := ""
		if row > 0 {
			where = fmt.Sprintf("%s %d: ", s.unit, row)
		}
		remedy := "ids must be of the model's own tokenizer"
		if !s.HasTokens() {
			remedy = "the tokenizer is another model's: give the model the one that it was trained with"
		}
		return fmt.Errorf("%s: %stoken id %d is not in the vocabulary of %d tokens; %s", s.path, where, id, c.Vocab, remedy)
	}
	return nil
}

// times and plus stop at the largest int.
func times(a, b int) int {
	if b > math.MaxInt/a {
		return math.MaxInt
	}
	return a * b
}

func plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
