// Package chattest compares what package chat renders with what transformers
// does.
package chattest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"exl2/internal/chat"
	"exl2/internal/goldens"
	"exl2/internal/jinja"
)

// A goldenCase is a conversation, and the prompt that transformers makes of it or
// the error that it raises.
type goldenCase struct {
	Name      string                     `json:"name"`
	Messages  json.RawMessage            `json:"messages"`
	Tools     json.RawMessage            `json:"tools"`
	Documents json.RawMessage            `json:"documents"`
	Answer    bool                       `json:"add_generation_prompt"`
	Continue  bool                       `json:"continue_final_message"`
	Now       string                     `json:"now"`
	Variables map[string]json.RawMessage `json:"kwargs"`
	Expected  *string                    `json:"expected"`
	Error     string                     `json:"error"`
	ErrorType string                     `json:"error_type"`
}

// Run renders all golden cases.
func Run(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "chat") {
		t.Run(goldens.Name(dir), func(t *testing.T) { runFolder(t, dir) })
	}
}

func runFolder(t *testing.T, dir string) {
	source, err := os.ReadFile(filepath.Join(dir, "template.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if err := complete(cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got, err := render(t, string(source), c, (*chat.Template).Render)
			if c.Expected == nil {
				compareError(t, c, got, err)
			} else if err != nil {
				t.Errorf("%v, want %q", err, *c.Expected)
			} else if got != *c.Expected {
				t.Errorf("have\n%q, want\n%q", got, *c.Expected)
			}
			comparePrompt(t, string(source), c)
		})
	}
}

// complete refuses a golden that says nothing: one without cases, and cases that expect nothing.
func complete(cases []goldenCase) error {
	if len(cases) == 0 {
		return errors.New("cases.json: no cases")
	}
	for i, c := range cases {
		if c.Expected == nil && c.ErrorType == "" {
			return fmt.Errorf("cases.json: case %d, %q: neither expected nor error_type", i, c.Name)
		}
	}
	return nil
}

// comparePrompt checks that a conversation of texts has the prompt that transformers
// makes of it, if that has all the texts; of templates that look at what a text says, rather
// than show it, nothing can be said.
func comparePrompt(t *testing.T, source string, c goldenCase) {
	var messages []map[string]any
	if json.Unmarshal(c.Messages, &messages) != nil || c.Expected == nil || c.Continue {
		return
	}
	for _, m := range messages {
		text, ok := m["content"].(string)
		if !ok || len(m) != 2 || !strings.Contains(*c.Expected, jinja.Strip(text)) {
			return
		}
	}
	got, err := render(t, source, c, (*chat.Template).Prompt)
	if errors.Is(err, chat.ErrUnsupported) {
		return
	}
	if err != nil || got != *c.Expected {
		t.Errorf("as a conversation of texts: have\n%q, %v, want\n%q", got, err, *c.Expected)
	}
}

// render makes a case's prompt with how.
func render(t *testing.T, source string, c goldenCase, how func(*chat.Template, *chat.Conversation, *jinja.Dict) (string, error)) (string, error) {
	template, err := chat.Parse("template.jinja", source)
	if err != nil {
		return "", err
	}
	messages, ok := value(t, c.Messages).(*jinja.List)
	if !ok {
		t.Fatalf("messages are no list: %s", c.Messages)
	}
	conversation := &chat.Conversation{
		Messages: messages, Tools: value(t, c.Tools), Documents: value(t, c.Documents),
		Answer: c.Answer, Continue: c.Continue, Variables: &jinja.Dict{},
	}
	for name, v := range c.Variables {
		conversation.Variables.Set(name, value(t, v))
	}
	conversation.Now = func() time.Time {
		now, err := time.Parse("2006-01-02T15:04:05.999999", c.Now)
		if err != nil {
			t.Errorf("the template reads the clock: %v", err)
		}
		return now
	}
	return how(template, conversation, nil)
}

func value(t *testing.T, text json.RawMessage) jinja.Value {
	if text == nil {
		return nil
	}
	v, err := jinja.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// loose are the errors whose texts are Python's own.
var loose = strings.Fields("TypeError ValueError SyntaxError OverflowError ZeroDivisionError RecursionError AssertionError KeyError AttributeError")

// compareError checks that rendering fails, and as it does in transformers.
func compareError(t *testing.T, c goldenCase, got string, err error) {
	if err == nil {
		t.Fatalf("have %q, want %s: %s", got, c.ErrorType, c.Error)
	}
	if slices.Contains(loose, c.ErrorType) {
		return
	}
	var e *jinja.Error
	if !errors.As(err, &e) || string(e.Kind) != c.ErrorType || e.Message != c.Error {
		t.Errorf("have %v (%T), want %s: %s", err, err, c.ErrorType, c.Error)
	}
}
