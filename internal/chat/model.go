package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"exl2/internal/jinja"
	"exl2/internal/ordered"
	"exl2/internal/regular"
)

// A Model is what a model's folder says about conversations.
type Model struct {
	// Tokens are the special tokens by their names in templates, as "bos_token".
	Tokens *jinja.Dict

	dir     string
	sources []source
}

// A source is a template that has not been read.
type source struct{ name, file, text string }

// The names that transformers gives templates.
const (
	standard = "default"
	withTool = "tool_use"
)

// Open reads what a model's folder says. Where several files hold templates,
// chat_template.jinja and additional_chat_templates/NAME.jinja win over
// tokenizer_config.json, and that over chat_template.json, which processors of
// images have.
func Open(dir string) (*Model, error) {
	m := &Model{Tokens: &jinja.Dict{}, dir: dir}
	config, err := readObject(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil {
		return nil, err
	}
	if err := m.readTokens(config); err != nil {
		return nil, err
	}
	for _, read := range []func() error{
		m.readFiles,
		func() error { return m.readField(filepath.Join(dir, "tokenizer_config.json"), config) },
		m.readLegacy,
	} {
		if err := read(); err != nil || len(m.sources) > 0 {
			return m, err
		}
	}
	return m, nil
}

// Template returns the model's template for conversations with or without tools:
// of several the one called tool_use, or else the one called default.
func (m *Model) Template(tools bool) (*Template, error) {
	names := []string{standard}
	if tools {
		names = []string{withTool, standard}
	}
	for _, name := range names {
		for _, s := range m.sources {
			if s.name == name {
				return Parse(s.file, s.text)
			}
		}
	}
	if len(m.sources) == 0 {
		return nil, fmt.Errorf("%s: no chat template: neither chat_template.jinja nor chat_template in tokenizer_config.json; leave --chat out, or take a model that was trained for conversations", m.dir)
	}
	var have []string
	for _, s := range m.sources {
		have = append(have, s.name)
	}
	slices.Sort(have)
	return nil, fmt.Errorf("%s: none of the chat templates is called %q; there are %s", m.dir, standard, strings.Join(have, ", "))
}

// readFiles reads the templates that are files of their own.
func (m *Model) readFiles() error {
	files, err := regular.WithSuffix(filepath.Join(m.dir, "additional_chat_templates"), ".jinja")
	if err != nil {
		return err
	}
	for _, path := range append([]string{filepath.Join(m.dir, "chat_template.jinja")}, files...) {
		text, err := regular.Read(path, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !utf8.Valid(text) {
			return fmt.Errorf("%s: not UTF-8", path)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".jinja")
		if name == "chat_template" {
			name = standard
		}
		m.sources = append(m.sources, source{name, path, string(text)})
	}
	return nil
}

// readField reads the field chat_template of a file: one template, or a list of
// objects with name and template, or an object of templates by name.
func (m *Model) readField(path string, object map[string]json.RawMessage) error {
	field, ok := object["chat_template"]
	if !ok || string(field) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(field, &text) == nil {
		m.sources = append(m.sources, source{standard, path + ": chat_template", text})
		return nil
	}
	var list []struct {
		Name     string  `json:"name"`
		Template *string `json:"template"`
	}
	byName := map[string]string{}
	if regular.Unmarshal(field, &list) == nil {
		for i, t := range list {
			if t.Template == nil {
				return fmt.Errorf("%s: chat_template: entry %d has no template", path, i)
			}
			if t.Name == "" {
				return fmt.Errorf("%s: chat_template: entry %d has no name", path, i)
			}
			byName[t.Name] = *t.Template
		}
	} else if json.Unmarshal(field, &byName) != nil {
		return fmt.Errorf("%s: chat_template is neither a text nor a list of objects with name and template", path)
	}
	for name, text := range byName {
		m.sources = append(m.sources, source{name, fmt.Sprintf("%s: chat_template %s", path, name), text})
	}
	return nil
}

// readLegacy reads chat_template.json.
func (m *Model) readLegacy() error {
	path := filepath.Join(m.dir, "chat_template.json")
	object, err := readObject(path)
	if err != nil {
		return err
	}
	return m.readField(path, object)
}

// maxFile bounds the files that are read: a tokenizer_config.json with all the
// tokens that a model has added takes a few megabytes.
const maxFile = 64 << 20

// readObject reads a JSON object; a missing file is an empty one.
func readObject(path string) (map[string]json.RawMessage, error) {
	text, err := regular.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(ordered.FromPython(text, ordered.Null), &object); err != nil {
		return nil, fmt.Errorf("%s: %w", path, regular.InWords(err))
	}
	return object, nil
}
