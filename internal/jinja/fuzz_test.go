package jinja

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"exl2/internal/goldens"
)

// seeds are the templates of the golden cases.
func seeds(f *testing.F, add func(source string)) {
	paths, err := filepath.Glob(filepath.Join(goldens.Repository(f), "testdata", "golden", "chat", "*", "template.jinja"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no templates: %v", err)
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		add(string(source))
	}
	for _, source := range []string{
		"{%- for k, v in d.items() if v -%}{{ loop.last }}{% else %}{% break %}{% endfor %}", "{{ x[1:][::-1].a.0|map('upper')|list is defined }}",
		"{{ {'a': [1.5e3, 0x1f, none]}['a'][-1] ~ \"\\x41\\u00e9\\N{BULLET}\" }}", "{% set ns.a, b = 1, 2 %}{% set c | trim %} {% endset %}",
		"{% macro m(a, b=a) %}{{ caller(*varargs, **kwargs) }}{% endmacro %}{% call(x) m(1) %}{{ x }}{% endcall %}",
		"{%+ raw -%}{{ }}{% endraw %}{#- c +#}{% filter upper %}a{% endfilter %}{{ '%-5.2f|%(a)s' % d }}{{ '{0[a]!r:>{1}}'.format(d, 9) }}",
	} {
		add(source)
	}
}

// checkError fails unless an error is one of a template's.
func checkError(t *testing.T, err error) {
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Line < 1 || e.Kind == "" || e.Message == "") {
		t.Fatalf("error without a place or a text: %#v", err)
	}
}

// Any text is a template or an error.
func FuzzParse(f *testing.F) {
	seeds(f, func(source string) { f.Add(source) })
	f.Fuzz(func(t *testing.T, source string) {
		_, err := Parse("fuzz", source)
		checkError(t, err)
	})
}

// Any template renders to a text or an error, within its limits, and to the same
// each time.
func FuzzRender(f *testing.F) {
	const variables = `{"messages": [{"role": "user", "content": "hé\n"}, {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]}],
		"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "d": {"a": "x", "b": 2, "items": []}, "x": [3, "1", 2], "add_generation_prompt": true, "bos_token": "<s>"}`
	seeds(f, func(source string) { f.Add(source, variables) })
	limits := &Limits{Steps: 20_000, Bytes: 1 << 20, Calls: 50}
	f.Fuzz(func(t *testing.T, source, variables string) {
		template, err := Parse("fuzz", source)
		if err != nil {
			return
		}
		v, err := ParseJSON([]byte(variables))
		d, ok := v.(*Dict)
		if err != nil || !ok {
			d = &Dict{}
		}
		now := func() time.Time { return time.Unix(1e9, 0).UTC() }
		first, err := template.Render(d, Options{Now: now, Limits: limits})
		checkError(t, err)
		second, again := template.Render(d, Options{Now: now, Limits: limits})
		if first != second || (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Fatalf("first %q, %v; then %q, %v", first, err, second, again)
		}
		if len(first) > limits.Bytes {
			t.Fatalf("%d bytes, the limit is %d", len(first), limits.Bytes)
		}
	})
}
