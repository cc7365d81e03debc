package calib

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"exl2/internal/ordered"
)

// textless refuses records of which the first have no text, though one of them lacks
// nothing. Where values are missing, text may come later.
func (j *jsonRecords) textless() error {
	var whole ordered.Object
	var odd error
	for range looked {
		o, err := j.object()
		if err != nil {
			break // it is met again by those who read
		}
		f, err := j.texts(o)
		if err != nil || !f.empty() {
			return nil
		}
		if odd == nil {
			odd = f.odd
		}
		if whole == nil && !slices.ContainsFunc(o, func(f ordered.Field) bool { return isMissing(f.Raw()) }) {
			whole = o
		}
	}
	if whole == nil || odd != nil {
		return odd
	}
	kinds := make([]string, len(whole))
	for i, f := range whole {
		kinds[i] = fmt.Sprintf("%.60q (%s)", f.Name, kindOf(f.Raw()))
	}
	return fmt.Errorf("no column of text or token ids; there are %s", listed(kinds))
}

// listed joins what there is, which may be nothing.
func listed(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// isMissing tells whether a value is null or has nothing in it.
func isMissing(value json.RawMessage) bool {
	return isNull(value) || isNested(value) && bytes.IndexByte([]byte("]}"), bytes.TrimSpace(value[1:])[0]) >= 0
}

// isNumbers tells whether a value is a number, or lists that begin with one.
func isNumbers(value json.RawMessage) bool { return strings.HasSuffix(kindOf(value), "numbers") }

// kindOf says what values like this one are, by what stands first in it: lists of lists of numbers.
func kindOf(value json.RawMessage) string {
	first := bytes.TrimLeft(value, "["+space)
	lists := bytes.Count(value[:len(value)-len(first)], []byte("["))
	kind := "numbers"
	switch first[0] {
	case '"':
		kind = "texts"
	case '{':
		kind = "objects"
	case 't', 'f':
		kind = "truths"
	case 'n':
		kind = "nulls"
	case ']':
		kind = "nothing"
	}
	return strings.Repeat("lists of ", lists) + kind
}
