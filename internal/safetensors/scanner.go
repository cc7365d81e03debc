package safetensors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// A scanner reads the narrow JSON of headers and indexes strictly: what is not
// of the expected kind is an error at once, whatever its size.
type scanner struct {
	data []byte
	pos  int
}

// peek returns the next byte after white space, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// expect steps over the byte c.
func (s *scanner) expect(c byte, what string) error {
	if s.peek() != c {
		return s.unexpected(what)
	}
	s.pos++
	return nil
}

// unexpected says what was wanted and what stands there.
func (s *scanner) unexpected(want string) error {
	s.peek()
	if s.pos >= len(s.data) {
		return fmt.Errorf("want %s, the JSON ends", want)
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return fmt.Errorf("want %s, got %q at byte %d", want, r, s.pos)
}

// end makes sure that nothing follows.
func (s *scanner) end() error {
	if s.peek(); s.pos < len(s.data) {
		return s.unexpected("the end")
	}
	return nil
}

// object calls member at the value of every key. A key may stand once.
func (s *scanner) object(what string, member func(key string) error) error {
	if err := s.expect('{', what); err != nil {
		return err
	}
	seen := make(map[string]bool)
	return s.list('}', func() error {
		key, err := s.text("a key")
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("%s stands twice", quote(key))
		}
		seen[key] = true
		if err := s.expect(':', "a colon"); err != nil {
			return err
		}
		return member(key)
	})
}

// array calls element at every element.
func (s *scanner) array(what string, element func() error) error {
	if err := s.expect('[', what); err != nil {
		return err
	}
	return s.list(']', element)
}

// list reads items with commas between up to the closing byte.
func (s *scanner) list(closing byte, item func() error) error {
	if s.peek() == closing {
		s.pos++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case closing:
			s.pos++
			return nil
		default:
			return s.unexpected(fmt.Sprintf("a comma or %q", closing))
		}
	}
}

// null steps over null, if that is next.
func (s *scanner) null() bool {
	const word = "null"
	if s.peek(); !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return false
	}
	s.pos += len(word)
	return true
}

// skip steps over a value of any kind.
func (s *scanner) skip() error {
	var value json.RawMessage
	d := json.NewDecoder(bytes.NewReader(s.data[s.pos:]))
	if err := d.Decode(&value); err != nil {
		return err
	}
	s.pos += int(d.InputOffset())
	return nil
}

// text reads a string.
func (s *scanner) text(what string) (string, error) {
	if s.peek() != '"' {
		return "", s.unexpected(what)
	}
	start := s.pos
	for i := start + 1; i < len(s.data); i++ {
		switch s.data[i] {
		case '\\':
			i++
		case '"':
			s.pos = i + 1
			return unquote(s.data[start:s.pos])
		}
	}
	return "", fmt.Errorf("the string at byte %d has no end", start)
}

// unquote returns the string that a JSON literal stands for.
func unquote(literal []byte) (string, error) {
	var text string
	if err := json.Unmarshal(literal, &text); err != nil {
		return "", fmt.Errorf("string %s: %w", quote(string(literal)), err)
	}
	return text, nil
}

// size reads a whole number from 0 to the largest int.
func (s *scanner) size(what string) (int, error) {
	c := s.peek()
	start := s.pos
	for s.pos < len(s.data) && (c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E') {
		s.pos++
		if s.pos < len(s.data) {
			c = s.data[s.pos]
		}
	}
	digits := string(s.data[start:s.pos])
	if digits == "" {
		return 0, s.unexpected(what)
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || strconv.Itoa(n) != digits {
		return 0, fmt.Errorf("%s is not %s", quote(digits), what)
	}
	return n, nil
}
