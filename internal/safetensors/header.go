package safetensors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// maxHeader is the longest header that the format's own library reads.
const maxHeader = 100_000_000

// An entry is one tensor of a header.
type entry struct {
	Info
	begin, end int64 // bytes after the header
}

// A header is a checked header, its entries in the order of their data.
type header struct {
	entries  []entry
	metadata map[string]string
}

// parseHeader checks the JSON of a header whose file holds dataBytes bytes
// after it.
func parseHeader(text []byte, dataBytes int64) (*header, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("the header is not UTF-8")
	}
	h := new(header)
	s := &scanner{data: text}
	err := s.object("an object", func(key string) error {
		if key == metadataKey {
			return h.readMetadata(s)
		}
		return h.readEntry(s, key)
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return h, h.checkPlaces(dataBytes)
}

// readMetadata reads strings by name, or null for none.
func (h *header) readMetadata(s *scanner) error {
	if s.null() {
		return nil
	}
	h.metadata = make(map[string]string)
	err := s.object("an object", func(key string) (err error) {
		h.metadata[key], err = s.text("a string")
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", metadataKey, err)
	}
	return nil
}

// readEntry reads {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}.
// Other fields are left to those who know them, as the format's own library does.
func (h *header) readEntry(s *scanner, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	e := entry{Info: Info{Name: name}, begin: -1}
	err := s.object("an object", func(key string) error {
		var err error
		switch key {
		case "dtype":
			e.DType, err = s.text("a string")
		case "shape":
			e.Shape, err = s.sizes()
		case "data_offsets":
			err = e.readPlace(s)
		default:
			err = s.skip()
			key = quote(key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return fmt.Errorf("tensor %s: %w", quote(name), err)
	}
	h.entries = append(h.entries, e)
	return nil
}

// sizes reads an array of sizes; it is never nil.
func (s *scanner) sizes() ([]int, error) {
	all := []int{}
	err := s.array("an array", func() error {
		n, err := s.size("a size")
		all = append(all, n)
		return err
	})
	return all, err
}

func (e *entry) readPlace(s *scanner) error {
	place, err := s.sizes()
	if err != nil {
		return err
	}
	if len(place) != 2 {
		return fmt.Errorf("has %d numbers, want 2", len(place))
	}
	e.begin, e.end = int64(place[0]), int64(place[1])
	return nil
}

// check tells whether the fields are all there and fit each other.
func (e *entry) check() error {
	switch {
	case e.DType == "":
		return errors.New("dtype is missing")
	case e.Shape == nil:
		return errors.New("shape is missing")
	case e.begin < 0:
		return errors.New("data_offsets is missing")
	}
	bytes, err := e.Bytes()
	if err != nil {
		return err
	}
	if e.end-e.begin != bytes {
		return fmt.Errorf("data_offsets [%d, %d] hold %d bytes, %s %v needs %d",
			e.begin, e.end, e.end-e.begin, e.DType, e.Shape, bytes)
	}
	return nil
}

// checkPlaces puts the entries in the order of their data and makes sure that
// they fill it without overlap, gap or rest.
func (h *header) checkPlaces(dataBytes int64) error {
	slices.SortStableFunc(h.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := int64(0)
	for i := range h.entries {
		e := &h.entries[i]
		problem := ""
		switch {
		case e.end > dataBytes:
			problem = fmt.Sprintf("the file ends at %d, it is truncated", dataBytes)
		case e.begin < at:
			problem = fmt.Sprintf("tensor %s overlaps it", quote(h.entries[i-1].Name))
		case e.begin > at:
			problem = fmt.Sprintf("nothing fills the bytes from %d on", at)
		}
		if problem != "" {
			return fmt.Errorf("tensor %s: data_offsets [%d, %d]: %s", quote(e.Name), e.begin, e.end, problem)
		}
		at = e.end
	}
	if at != dataBytes {
		return fmt.Errorf("%d bytes follow the last tensor", dataBytes-at)
	}
	return nil
}
