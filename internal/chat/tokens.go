package chat

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"exl2/internal/regular"
)

// readTokens reads the special tokens that templates may name: all fields of
// tokenizer_config.json that end in _token and hold a token, and the tokens that
// extra_special_tokens gives names. Configurations from before added_tokens_decoder
// have them in special_tokens_map.json, which then wins.
func (m *Model) readTokens(config map[string]json.RawMessage) error {
	m.addTokens(config)
	if _, ok := config["added_tokens_decoder"]; ok {
		return nil
	}
	older, err := readObject(filepath.Join(m.dir, "special_tokens_map.json"))
	if err != nil {
		return err
	}
	m.addTokens(older)
	return nil
}

// addTokens sets the tokens that an object names.
func (m *Model) addTokens(object map[string]json.RawMessage) {
	var names []string
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		field := object[name]
		if strings.HasSuffix(name, "_token") {
			if text, err := tokenText(field); err == nil {
				m.Tokens.Set(name, text)
			}
		}
		if name == "extra_special_tokens" || name == "model_specific_special_tokens" {
			var more map[string]json.RawMessage
			if json.Unmarshal(field, &more) == nil {
				m.addNamed(more)
			}
		}
	}
}

// addNamed sets tokens that are given by name.
func (m *Model) addNamed(tokens map[string]json.RawMessage) {
	for name, field := range tokens {
		if text, err := tokenText(field); err == nil {
			m.Tokens.Set(name, text)
		}
	}
}

// tokenText reads a token: its text, or an object with its content.
func tokenText(field json.RawMessage) (string, error) {
	var text *string
	if err := json.Unmarshal(field, &text); err == nil && text != nil {
		return *text, nil
	}
	var object struct {
		Content *string `json:"content"`
	}
	if err := regular.Unmarshal(field, &object); err != nil || object.Content == nil {
		return "", fmt.Errorf("no token: %.40s", field)
	}
	return *object.Content, nil
}
