package jsonfields

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A jsonScan walks a JSON text that encoding/json has already found valid. It
// exists for vocabularies and merge lists, which are nearly all of a
// tokenizer.json's megabytes: it is several times faster than reflection.
type jsonScan struct {
	data []byte
	pos  int
}

// peek skips white space and separators and returns the next byte, 0 at the end.
func (s *jsonScan) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// next reports whether the byte that follows is c, and steps over it if so.
func (s *jsonScan) next(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

// want is next with an error.
func (s *jsonScan) want(c byte, what string) error {
	if s.next(c) {
		return nil
	}
	return fmt.Errorf("want %s at byte %d", what, s.pos)
}

// str reads a string.
func (s *jsonScan) str() (string, error) {
	if err := s.want('"', "a string"); err != nil {
		return "", err
	}
	start := s.pos
	for escaped := false; ; s.pos++ {
		switch s.data[s.pos] {
		case '\\':
			escaped = true
			s.pos++
		case '"':
			s.pos++
			if escaped {
				var v string
				err := json.Unmarshal(s.data[start-1:s.pos], &v)
				return v, err
			}
			return string(s.data[start : s.pos-1]), nil
		}
	}
}

// number returns the text of a number.
func (s *jsonScan) number() (string, error) {
	s.peek()
	start := s.pos
	for s.pos < len(s.data) {
		if c := s.data[s.pos]; c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E' {
			s.pos++
			continue
		}
		break
	}
	if s.pos == start {
		return "", fmt.Errorf("want a number at byte %d", start)
	}
	return string(s.data[start:s.pos]), nil
}

// ScanVocab reads {"token": id, ...} in the order of the file.
func ScanVocab(data []byte, add func(token string, id int32) error) error {
	s := &jsonScan{data: data}
	if err := s.want('{', "an object"); err != nil {
		return err
	}
	for !s.next('}') {
		token, err := s.str()
		if err != nil {
			return err
		}
		text, err := s.number()
		if err != nil {
			return fmt.Errorf("token %q: %w", token, err)
		}
		id, err := strconv.ParseInt(text, 10, 32)
		if err != nil || id < 0 {
			return fmt.Errorf("token %q: id %s is not a 32-bit number from 0", token, text)
		}
		if err := add(token, int32(id)); err != nil {
			return err
		}
	}
	return nil
}

// ScanScores reads [["piece", score], ...].
func ScanScores(data []byte, add func(piece string, score float64) error) error {
	s := &jsonScan{data: data}
	if err := s.want('[', "a list"); err != nil {
		return err
	}
	for !s.next(']') {
		if err := s.want('[', "a list of a piece and its score"); err != nil {
			return err
		}
		piece, err := s.str()
		if err != nil {
			return err
		}
		text, err := s.number()
		if err != nil {
			return fmt.Errorf("piece %q: %w", piece, err)
		}
		score, err := parseScore(text)
		if err != nil {
			return fmt.Errorf("piece %q: score %s is not a number", piece, text)
		}
		if err := s.want(']', "the end of the pair"); err != nil {
			return err
		}
		if err := add(piece, score); err != nil {
			return fmt.Errorf("piece %w", err)
		}
	}
	return nil
}

// ScanMerges reads a merge list in either encoding: [["a", "b"], ...] or ["a b", ...].
// In the second one lines that start with "#version" are comments.
func ScanMerges(data []byte, add func(a, b string) error) error {
	s := &jsonScan{data: data}
	if err := s.want('[', "a list"); err != nil {
		return err
	}
	for n := 0; !s.next(']'); n++ {
		a, b, err := s.merge()
		if err == nil && a != "" {
			err = add(a, b)
		}
		if err != nil {
			return fmt.Errorf("merge %d: %w", n, err)
		}
	}
	return nil
}

// merge reads one element of a merge list; a is empty for a comment.
func (s *jsonScan) merge() (a, b string, err error) {
	if !s.next('[') {
		line, err := s.str()
		if err != nil {
			return "", "", err
		}
		return splitMerge(line)
	}
	if a, err = s.str(); err != nil {
		return "", "", err
	}
	if b, err = s.str(); err != nil {
		return "", "", err
	}
	if a == "" || b == "" {
		return "", "", fmt.Errorf("[%q, %q] has an empty part", a, b)
	}
	return a, b, s.want(']', "the end of the pair")
}

// splitMerge takes a merge in the encoding "a b" apart; a is empty for a comment.
func splitMerge(line string) (a, b string, err error) {
	if strings.HasPrefix(line, "#version") {
		return "", "", nil
	}
	a, b, ok := strings.Cut(line, " ")
	if !ok || a == "" || b == "" || strings.Contains(b, " ") {
		return "", "", fmt.Errorf("%q is not two tokens with a space between", line)
	}
	return a, b, nil
}
