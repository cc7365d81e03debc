package tokenizer

import (
	"encoding/json"
	"fmt"
)

// readTemplate reads a post-processor of a tokenizer.json; null adds nothing.
// Only the template for single texts counts, and no offsets.
func readTemplate(path string, data json.RawMessage) (template, error) {
	if data == nil {
		return template{}, nil
	}
	kind, f, err := component(path, data)
	if err != nil {
		return template{}, err
	}
	switch kind {
	case "Sequence":
		list, err := each(f, "processors", readTemplate)
		var all template
		for _, t := range list {
			all.before = append(t.before, all.before...)
			all.after = append(all.after, t.after...)
		}
		return all, err
	case "ByteLevel":
		f.ignore("add_prefix_space", "trim_offsets", "use_regex")
		return template{}, f.done()
	case "BertProcessing", "RobertaProcessing":
		f.ignore("add_prefix_space", "trim_offsets")
		t := template{before: []int32{f.tokenPair("cls")}, after: []int32{f.tokenPair("sep")}}
		return t, f.done()
	case "TemplateProcessing":
		return readPieces(f)
	}
	return template{}, unsupported(path, kind)
}

// tokenPair returns the id of a field ["token", id].
func (f *fields) tokenPair(key string) int32 {
	var token string
	id := int32(-1)
	pair := f.list(key)
	if f.err == nil && len(pair) != 2 {
		f.fail(key, "want a token and its id")
	}
	if f.err == nil {
		f.read(key, pair[0], &token)
		f.read(key, pair[1], &id)
	}
	if f.err == nil && id < 0 {
		f.fail(key, "id %d", id)
	}
	return id
}

// readPieces reads a TemplateProcessing: "single" is a list of special tokens
// and one place for the text.
func readPieces(f *fields) (template, error) {
	var t template
	f.ignore("pair") // for two texts
	specials := map[string]struct {
		ID     string   `json:"id"`
		IDs    []int32  `json:"ids"`
		Tokens []string `json:"tokens"`
	}{}
	f.read("special_tokens", f.need("special_tokens"), &specials)
	list := f.list("single")
	if err := f.done(); err != nil {
		return t, err
	}
	texts := 0
	for i, raw := range list {
		path := fmt.Sprintf("%s[%d]", f.at("single"), i)
		token, err := readTemplatePiece(path, raw)
		if err != nil {
			return t, err
		}
		if token == "" {
			texts++
			continue
		}
		s, ok := specials[token]
		if !ok {
			return t, fmt.Errorf("%s: %q is not in special_tokens", path, token)
		}
		if texts == 0 {
			t.before = append(t.before, s.IDs...)
		} else {
			t.after = append(t.after, s.IDs...)
		}
	}
	if texts != 1 {
		return t, fmt.Errorf("%s: the text %d times: %w", f.at("single"), texts, ErrUnsupported)
	}
	return t, nil
}

// readTemplatePiece returns the name of a special token, or "" for the text.
func readTemplatePiece(path string, data []byte) (token string, err error) {
	f, err := newFields(path, data)
	if err != nil {
		return "", err
	}
	sequence, special := f.take("Sequence"), f.take("SpecialToken")
	if err := f.done(); err != nil {
		return "", err
	}
	if (sequence == nil) == (special == nil) {
		return "", fmt.Errorf("%s: want one of Sequence and SpecialToken", path)
	}
	key, raw := "Sequence", sequence
	if special != nil {
		key, raw = "SpecialToken", special
	}
	in, err := newFields(f.at(key), raw)
	if err != nil {
		return "", err
	}
	id := in.str("id")
	in.ignore("type_id")
	if err := in.done(); err != nil {
		return "", err
	}
	if special == nil {
		if id != "A" {
			return "", fmt.Errorf("%s: sequence %q: %w", path, id, ErrUnsupported)
		}
		return "", nil
	}
	if id == "" {
		return "", fmt.Errorf("%s: a special token without a name", path)
	}
	return id, nil
}

// check refuses ids that the tokenizer does not have.
func (t template) check(v *vocabulary) error {
	for _, ids := range [][]int32{t.before, t.after} {
		for _, id := range ids {
			if !v.has(id) {
				return fmt.Errorf("post_processor: id %d is not in the vocabulary", id)
			}
		}
	}
	return nil
}
