package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"exl2/internal/ordered"
	"exl2/internal/regular"
)

// settings is what the files beside a tokenizer say about tokens:
// tokenizer_config.json, special_tokens_map.json and added_tokens.json. They
// have many more fields, for other programs; only these are looked at.
//
// What follows from them is what transformers 4.57 makes of them.
type settings struct {
	Class   string     `json:"tokenizer_class"`
	BOS     purpose    `json:"bos_token"`
	EOS     purpose    `json:"eos_token"`
	Unk     purpose    `json:"unk_token"`
	Sep     purpose    `json:"sep_token"`
	Pad     purpose    `json:"pad_token"`
	Cls     purpose    `json:"cls_token"`
	Mask    purpose    `json:"mask_token"`
	Special tokenNames `json:"additional_special_tokens"`
	Extra   tokenNames `json:"extra_special_tokens"`

	AddBOS *bool                `json:"add_bos_token"`
	AddEOS *bool                `json:"add_eos_token"`
	Legacy *bool                `json:"legacy"`
	Prefix *bool                `json:"add_prefix_space"`
	ByID   map[string]tokenName `json:"added_tokens_decoder"`
	Split  bool                 `json:"split_special_tokens"`

	found bool             // some file is there, or a config.json: a model as transformers loads it
	later map[string]int32 // added_tokens.json: ids by text
}

// A tokenName is a token, written as a string or as an object with its flags.
type tokenName struct{ addedToken }

// UnmarshalJSON reads either way of writing.
func (n *tokenName) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		n.addedToken = addedToken{content: text, special: true}
		return nil
	}
	var object struct {
		Content    *string `json:"content"`
		SingleWord bool    `json:"single_word"`
		LStrip     bool    `json:"lstrip"`
		RStrip     bool    `json:"rstrip"`
		Normalized *bool   `json:"normalized"`
		Special    bool    `json:"special"`
	}
	if regular.Unmarshal(data, &object) != nil || object.Content == nil {
		return fmt.Errorf("a token is neither a string nor an object with content: %.40s", data)
	}
	n.addedToken = addedToken{
		content: *object.Content, singleWord: object.SingleWord, lstrip: object.LStrip, rstrip: object.RStrip, special: object.Special,
		normalized: !object.Special,
	}
	if object.Normalized != nil {
		n.normalized = *object.Normalized
	}
	return nil
}

// A purpose is the token that serves it, if there is one: a file may also say that
// there is none, and no class then has its own.
type purpose struct {
	tokenName
	said bool
}

// UnmarshalJSON reads a token, or null for none.
func (p *purpose) UnmarshalJSON(data []byte) error {
	*p = purpose{said: true}
	if string(data) == "null" {
		return nil
	}
	return p.tokenName.UnmarshalJSON(data)
}

// or returns the text of the token, which is that of a class where no file says anything.
func (p *purpose) or(class string) string {
	if p.said {
		return p.content
	}
	return class
}

// tokenNames are tokens in a list, or in an object whose keys do not matter.
type tokenNames []tokenName

// UnmarshalJSON reads either way of writing.
func (l *tokenNames) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	open, err := d.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('[') && open != json.Delim('{') {
		return fmt.Errorf("tokens are neither a list nor an object: %.40s", data)
	}
	for d.More() {
		if open == json.Delim('{') {
			if _, err := d.Token(); err != nil {
				return err
			}
		}
		var n tokenName
		if err := d.Decode(&n); err != nil {
			return err
		}
		*l = append(*l, n)
	}
	return nil
}

// readSettings reads the files of a folder that are there. Where tokens are
// listed by their ids, the other two files are of an older time and not read.
func readSettings(dir string) (*settings, error) {
	var s, older settings
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		s.found = true
	}
	err := s.read(dir, "tokenizer_config.json", &s)
	if err == nil && s.Split {
		err = fmt.Errorf("%s: split_special_tokens: %w: true; with false special tokens in texts are found as such", filepath.Join(dir, "tokenizer_config.json"), ErrUnsupported)
	}
	if err != nil || s.ByID != nil {
		return &s, err
	}
	if err := s.read(dir, "special_tokens_map.json", &older); err != nil {
		return nil, err
	}
	if err := s.read(dir, "added_tokens.json", &s.later); err != nil {
		return nil, err
	}
	for _, pair := range [][2]*purpose{{&s.BOS, &older.BOS}, {&s.EOS, &older.EOS}, {&s.Unk, &older.Unk}, {&s.Sep, &older.Sep},
		{&s.Pad, &older.Pad}, {&s.Cls, &older.Cls}, {&s.Mask, &older.Mask}} {
		if pair[1].said {
			*pair[0] = *pair[1]
		}
	}
	s.Special = append(s.Special, older.Special...)
	s.Extra = append(s.Extra, older.Extra...)
	return &s, nil
}

// read reads a JSON file of a folder into v; a missing file leaves v as it is.
func (s *settings) read(dir, name string, v any) error {
	data, err := readFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.found = true
	if err == nil {
		err = regular.Unmarshal(ordered.FromPython(data, ordered.Null), v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// named returns the tokens that have a purpose, in the order in which they get ids.
func (s *settings) named() []addedToken {
	c := s.class()
	var list []addedToken
	add := func(p *purpose, class string) {
		tok := p.addedToken
		if tok.content, tok.special = p.or(class), true; tok.content != "" {
			list = append(list, tok)
		}
	}
	add(&s.BOS, c.bos)
	add(&s.EOS, c.eos)
	add(&s.Unk, c.unk)
	add(&s.Sep, "")
	add(&s.Pad, c.pad)
	add(&s.Cls, "")
	add(&s.Mask, "")
	for _, n := range append(slices.Clone(s.Special), s.Extra...) {
		add(&purpose{n, true}, "")
	}
	return list
}

// purposes returns the texts of the tokens that have a purpose, which are special.
func (s *settings) purposes() map[string]bool {
	texts := map[string]bool{}
	for _, tok := range s.named() {
		texts[tok.content] = true
	}
	return texts
}

// byID returns the tokens that are listed with their ids, in the order of these.
func (s *settings) byID() ([]addedToken, error) {
	var list []addedToken
	purposes := s.purposes()
	for key, n := range s.ByID {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: %q is not an id", key)
		}
		t := n.addedToken
		t.id, t.special = int32(id), t.special || purposes[t.content]
		list = append(list, t)
	}
	for text, id := range s.later {
		special := purposes[text]
		list = append(list, addedToken{content: text, id: id, special: special, normalized: !special})
	}
	for _, t := range list {
		if t.content == "" || t.id < 0 {
			return nil, fmt.Errorf("the files beside it: added token %d, %q: want a text and an id of 0 or more", t.id, t.content)
		}
	}
	slices.SortFunc(list, func(a, b addedToken) int { return int(a.id) - int(b.id) })
	return list, nil
}
