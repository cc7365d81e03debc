package chat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/jinja"
)

// folder writes files and returns where they are.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWhichTemplate(t *testing.T) {
	const (
		config = "tokenizer_config.json"
		file   = "chat_template.jinja"
		tools  = "additional_chat_templates/tool_use.jinja"
		legacy = "chat_template.json"
		named  = `{"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]}`
	)
	for name, c := range map[string]struct {
		files      map[string]string
		plain, use string // what is rendered without and with tools
	}{
		"a text":                    {map[string]string{config: `{"chat_template": "A"}`}, "A", "A"},
		"named ones":                {map[string]string{config: named}, "D", "T"},
		"by name":                   {map[string]string{config: `{"chat_template": {"default": "D", "rag": "R"}}`}, "D", "D"},
		"a file":                    {map[string]string{file: "F\n"}, "F", "F"},
		"a file wins":               {map[string]string{file: "F", config: `{"chat_template": "A"}`}, "F", "F"},
		"a file beside null":        {map[string]string{file: "F", config: `{"chat_template": null}`}, "F", "F"},
		"files":                     {map[string]string{file: "F", tools: "X", config: named}, "F", "X"},
		"a processor's":             {map[string]string{legacy: `{"chat_template": "L"}`}, "L", "L"},
		"a processor's comes last":  {map[string]string{legacy: `{"chat_template": "L"}`, config: `{"chat_template": "A"}`}, "A", "A"},
		"line ends become newlines": {map[string]string{file: "a\r\nb"}, "a\nb", "a\nb"},
	} {
		m, err := Open(folder(t, c.files))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, tools := range []bool{false, true} {
			want := c.plain
			if tools {
				want = c.use
			}
			template, err := m.Template(tools)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			have, err := template.Render(&Conversation{Messages: jinja.NewList(Message("user", "x"))}, m.Tokens)
			if err != nil || have != want {
				t.Errorf("%s, tools %v: have %q, %v, want %q", name, tools, have, err, want)
			}
		}
	}
}

func TestNoTemplate(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"no chat template: neither chat_template.jinja nor": {"tokenizer_config.json": "{}"},
		`none of the chat templates is called "default"; there are rag, tool_use`: {
			"tokenizer_config.json": `{"chat_template": [{"name": "tool_use", "template": ""}, {"name": "rag", "template": ""}]}`},
		"entry 0 has no template":             {"tokenizer_config.json": `{"chat_template": [{"name": "x"}]}`},
		"entry 0 has no name":                 {"tokenizer_config.json": `{"chat_template": [{"template": "x"}]}`},
		"have a JSON array, want an object":   {"tokenizer_config.json": `[]`},
		"chat_template is neither a text nor": {"tokenizer_config.json": `{"chat_template": 5}`},
		"unexpected end of JSON input":        {"tokenizer_config.json": `{"chat_template": `},
		"chat_template.jinja: not UTF-8":      {"chat_template.jinja": "a\xff"},
		"line 2: there is no tag":             {"chat_template.jinja": "\n{% nope %}"},
	} {
		m, err := Open(folder(t, files))
		if err == nil {
			_, err = m.Template(false)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("have %v, want %s", err, want)
		}
	}
}

func TestTokens(t *testing.T) {
	const template = "{{ bos_token }} {{ eos_token }} {{ image_token }} {{ add_bos_token is defined }} {{ pad_token is defined }}"
	const older = `{"bos_token": "<map>", "pad_token": "<pad>"}`
	for name, c := range map[string]struct{ config, tokensMap, want string }{
		"texts and objects":        {`{"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": true}`, "", "<s> </s>  False False"},
		"numbers of Python":        {`{"bos_token": "<s>", "model_max_length": Infinity}`, "", "<s>   False False"},
		"null is not there":        {`{"bos_token": null, "pad_token": null}`, "", "   False False"},
		"named ones":               {`{"extra_special_tokens": {"image_token": "<img>"}}`, "", "  <img> False False"},
		"a list has no names":      {`{"extra_special_tokens": ["<img>"], "image_token": "<i>"}`, "", "  <i> False False"},
		"the older file wins":      {`{"bos_token": "<s>"}`, older, "<map>   False True"},
		"the older file is unused": {`{"bos_token": "<s>", "added_tokens_decoder": {}}`, older, "<s>   False False"},
	} {
		files := map[string]string{"tokenizer_config.json": c.config, "chat_template.jinja": template}
		if c.tokensMap != "" {
			files["special_tokens_map.json"] = c.tokensMap
		}
		m, err := Open(folder(t, files))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := m.Template(false)
		if err != nil {
			t.Fatal(err)
		}
		have, err := parsed.Render(&Conversation{Messages: jinja.NewList(Message("user", "x"))}, m.Tokens)
		if err != nil || have != c.want {
			t.Errorf("%s: have %q, %v, want %q", name, have, err, c.want)
		}
	}
}

// What a conversation gives wins over the special tokens, and those over nothing
// else; without messages there is no prompt.
func TestVariables(t *testing.T) {
	template, err := Parse("t", "{{ bos_token }}{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ messages|length }}{{ x }}")
	if err != nil {
		t.Fatal(err)
	}
	tokens, mine := &jinja.Dict{}, &jinja.Dict{}
	tokens.Set("bos_token", "<s>")
	mine.Set("x", 1)
	c := &Conversation{Messages: jinja.NewList(Message("user", "a")), Answer: true, Variables: mine}
	if have, err := template.Render(c, tokens); err != nil || have != "<s>NoneNoneTrue11" {
		t.Errorf("%q, %v", have, err)
	}
	mine.Set("bos_token", "<mine>")
	if have, err := template.Render(c, tokens); err != nil || !strings.HasPrefix(have, "<mine>") {
		t.Errorf("%q, %v", have, err)
	}
	if _, err := template.Render(&Conversation{}, tokens); err == nil {
		t.Error("a conversation without messages was rendered")
	}
}
