package calib

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Describe says in a line which columns are read and how the first record
// begins, so that who reads it sees what a file's text was taken for:
// chat.jsonl: text of messages, such as "user Hi assistant Hello".
func (s *Source) Describe() string {
	var r Record
	in, err := s.open()
	switch {
	case err != nil:
	case s.plain != nil && s.plain.Size() > 0:
		r.Text, _, err = s.plain.beginning(utf8.UTFMax * (sampleRunes + 2))
	default:
		r, err = in.next()
	}
	if in == nil || errors.Is(err, io.EOF) {
		return s.label + ": nothing to read"
	}
	what, sample := "text", strconv.Quote(beginning(r.Text))
	if s.tokens {
		what, sample = "token ids", strings.Trim(fmt.Sprint(r.IDs[:min(len(r.IDs), sampleIDs)]), "[]")
	}
	if columns := in.columns(); columns != nil {
		what += " of " + beginning(strings.Trim(strconv.Quote(strings.Join(columns, ", ")), `"`))
	}
	if err != nil {
		return s.label + ": " + what // the error is met again by Records
	}
	return fmt.Sprintf("%s: %s, such as %s", s.label, what, sample)
}

// What Describe shows of a record at most.
const (
	sampleRunes = 100
	sampleIDs   = 12
)

func beginning(text string) string {
	runes := 0
	for i := range text {
		if runes++; runes > sampleRunes {
			return text[:i] + "..."
		}
	}
	return text
}
