package chat

import (
	"testing"

	"exl2/internal/jinja"
)

// Reasoning is found under each of its names, as transformers 5.23 renders it.
func TestReasoning(t *testing.T) {
	const source = "{% for m in messages %}{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.reasoning }}|{{ m | list | join(',') }};{% endfor %}"
	template, err := Parse("template.jinja", source)
	if err != nil {
		t.Fatal(err)
	}
	for messages, want := range map[string]string{
		`[{"role": "assistant", "content": "a"}]`:                                               "|||role,content;",
		`[{"role": "assistant", "reasoning_content": "r", "content": "a"}]`:                     "r|r||thinking,role,reasoning_content,content;",
		`[{"role": "assistant", "content": "a", "thinking": "r"}]`:                              "r|r||thinking,role,content,reasoning_content;",
		`[{"role": "assistant", "content": "a", "reasoning": "r"}]`:                             "r|r|r|thinking,role,content,reasoning,reasoning_content;",
		`[{"role": "assistant", "thinking": "t", "reasoning": "r", "reasoning_content": null}]`: "t|t|r|thinking,role,reasoning,reasoning_content;",
		`[{"role": "user", "content": "a"}, {"role": "assistant", "thinking": ""}]`:             "|||role,content;|||thinking,role,reasoning_content;",
	} {
		v, err := jinja.ParseJSON([]byte(messages))
		if err != nil {
			t.Fatal(err)
		}
		got, err := template.Render(&Conversation{Messages: v.(*jinja.List)}, nil)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", messages, got, err, want)
		}
	}
}
