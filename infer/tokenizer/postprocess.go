package tokenizer

import (
	"encoding/json"
	"fmt"

	"exl2/infer/tokenizer/internal/jsonfields"
)

// readTemplate reads a post-processor of a tokenizer.json; null adds nothing.
// Only the template for single texts counts, and no offsets.
func readTemplate(path string, data json.RawMessage) (template, error) {
	if data == nil {
		return template{}, nil
	}
	kind, f, err := jsonfields.Component(path, data)
	if err != nil {
		return template{}, err
	}
	switch kind {
	case "Sequence":
		list, err := jsonfields.Each(f, "processors", readTemplate)
		var all template
		for _, t := range list {
			all.before = append(t.before, all.before...)
			all.after = append(all.after, t.after...)
		}
		return all, err
	case "ByteLevel":
		f.Ignore("add_prefix_space", "trim_offsets", "use_regex")
		return template{}, f.Done()
	case "BertProcessing", "RobertaProcessing":
		f.Ignore("add_prefix_space", "trim_offsets")
		t := template{before: []int32{tokenPair(f, "cls")}, after: []int32{tokenPair(f, "sep")}}
		return t, f.Done()
	case "TemplateProcessing":
		return readPieces(f)
	}
	return template{}, jsonfields.Unsupported(path, kind)
}

// tokenPair returns the id of a field ["token", id].
func tokenPair(f *jsonfields.Fields, key string) int32 {
	var token string
	id := int32(-1)
	pair := f.List(key)
	if f.Err() == nil && len(pair) != 2 {
		f.Fail(key, "want a token and its id")
	}
	if f.Err() == nil {
		f.Read(key, pair[0], &token)
		f.Read(key, pair[1], &id)
	}
	if f.Err() == nil && id < 0 {
		f.Fail(key, "id %d", id)
	}
	return id
}

// readPieces reads a TemplateProcessing: "single" is a list of special tokens
// and one place for the text.
func readPieces(f *jsonfields.Fields) (template, error) {
	var t template
	f.Ignore("pair")                           // for two texts
	f.Ignore("add_bos_token", "add_eos_token") // in Cohere's files; the tokenizers library does not know them
	specials := map[string]struct {
		ID     string   `json:"id"`
		IDs    []int32  `json:"ids"`
		Tokens []string `json:"tokens"`
	}{}
	f.Read("special_tokens", f.Need("special_tokens"), &specials)
	list := f.List("single")
	if err := f.Done(); err != nil {
		return t, err
	}
	texts := 0
	for i, raw := range list {
		path := fmt.Sprintf("%s[%d]", f.At("single"), i)
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
		return t, fmt.Errorf("%s: the text %d times: %w", f.At("single"), texts, ErrUnsupported)
	}
	return t, nil
}

// readTemplatePiece returns the name of a special token, or "" for the text.
func readTemplatePiece(path string, data []byte) (token string, err error) {
	f, err := jsonfields.New(path, data)
	if err != nil {
		return "", err
	}
	sequence, special := f.Take("Sequence"), f.Take("SpecialToken")
	if err := f.Done(); err != nil {
		return "", err
	}
	if (sequence == nil) == (special == nil) {
		return "", fmt.Errorf("%s: want one of Sequence and SpecialToken", path)
	}
	key, raw := "Sequence", sequence
	if special != nil {
		key, raw = "SpecialToken", special
	}
	in, err := jsonfields.New(f.At(key), raw)
	if err != nil {
		return "", err
	}
	id := in.Str("id")
	in.Ignore("type_id")
	if err := in.Done(); err != nil {
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
