package chat

import (
	"errors"
	"strings"
	"testing"

	"exl2/internal/jinja"
)

// Texts are given as the template takes them, and one that it does not take is missed.
func TestPrompt(t *testing.T) {
	const (
		parts   = "{% for m in messages %}{{ m.role }}:{% for c in m.content %}{% if c.type == 'text' %}{{ c.text }};{% endif %}{% endfor %}{% endfor %}"
		llava   = "{% for m in messages %}{% for c in m['content'] | selectattr('type', 'equalto', 'text') %}{{ m.role ~ ':' ~ c['text'] }};{% endfor %}{% endfor %}"
		indexed = "{% for m in messages %}{{ m.role + ':' + m.content[0].text + ';' }}{% endfor %}"
		either  = "{% for m in messages %}{{ m.role }}:{% if m.content is string %}{{ m.content }};{% else %}a list{% endif %}{% endfor %}"
		mixed   = "{% for m in messages %}{{ m.role }}:{% if m.role == 'user' %}{{ m.content[0].text }}{% else %}{{ m.content|trim }}{% endif %};{% endfor %}"
		last    = "user:{{ messages[-1].content|upper }};"
		noSaid  = "{% for m in messages %}{% if m.role != 'system' %}{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}"
		nothing = "{% for m in messages %}USER: {% endfor %}"
		strict  = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ messages[0].content }}"
	)
	system, ask, answer := Message("system", " be terse "), Message("user", "U"), Message("assistant", "a")
	for name, c := range map[string]struct {
		template string
		messages []jinja.Value
		want     string
	}{
		"texts":                         {either, []jinja.Value{system, ask, answer}, "system: be terse ;user:U;assistant:a;"},
		"parts":                         {parts, []jinja.Value{system, ask, answer}, "system: be terse ;user:U;assistant:a;"},
		"parts that are selected":       {llava, []jinja.Value{ask, answer, ask}, "user:U;assistant:a;user:U;"},
		"parts that are read unchecked": {indexed, []jinja.Value{system, ask}, "system: be terse ;user:U;"},
		"parts of some roles":           {mixed, []jinja.Value{system, ask, answer}, "system:be terse;user:U;assistant:a;"},
		"the last message only":         {last, []jinja.Value{ask, answer, Message("user", "x")}, "user:X;"},
		"no text":                       {nothing, []jinja.Value{Message("user", " \n")}, "USER: "},
		"no system message given":       {noSaid, []jinja.Value{ask}, "user:U;"},
		"the system's is left out":      {noSaid, []jinja.Value{system, ask}, "user:U;"},
		"the user's is left out":        {nothing, []jinja.Value{ask}, "error: t: the template leaves the user's message out, as a text and as a list of parts: not supported; give the prompt without --chat"},
		"the template's own refusal":    {strict, []jinja.Value{system, ask}, "error: t: line 1: no system"},
	} {
		template, err := Parse("t", c.template)
		if err != nil {
			t.Fatal(err)
		}
		have, err := template.Prompt(&Conversation{Messages: jinja.NewList(c.messages...)}, nil)
		if err != nil {
			have = "error: " + err.Error()
		}
		if have != c.want {
			t.Errorf("%s: have %q, want %q", name, have, c.want)
		}
		if missed := strings.Contains(c.want, "leaves"); missed != errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v: wraps ErrUnsupported: %t", name, err, !missed)
		}
	}
}
