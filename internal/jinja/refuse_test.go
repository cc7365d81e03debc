package jinja

import (
	"errors"
	"testing"
)

// What a template uses and this package does not know is refused by name and
// line: when it is read where Jinja does so, else when it is reached.
func TestRefusals(t *testing.T) {
	for source, want := range map[string]string{
		"a\n{% do x %}":                          `2: there is no tag "do"`,
		"\n\n{{ 1|nope }}":                       `3: there is no filter "nope"`,
		"\n{{ [1]|map('nope')|list }}":           `2: there is no filter "nope"`,
		"\n{{ 1 is nope }}":                      `2: there is no test "nope"`,
		"{% if 1 %}\n{{ 1|nope }}{% endif %}":    `2: there is no filter "nope"`,
		"{% if 1 %}\n{{ 1 is nope }}{% endif %}": `2: there is no test "nope"`,
		"\n{{ nope() }}":                         `2: there is no function "nope"`,
		"\n{{ 'a'.nope() }}":                     `2: there is no method of a str called "nope"`,
		"\n{% include 'x' %}":                    "2: {% include %} needs another template, of which a chat template has none",
		"\n{{ lipsum() }}":                       "2: lipsum(): a prompt must be the same each time",
		"\n{{ [1, 2]|random }}":                  "2: the filter random: a prompt must be the same each time",
		"\n{{ [1]|map('string') }}":              "2: a generator has no text that is the same each time",
		"\n{{ self.block() }}":                   "2: self.block: the blocks of templates",
		"\n{{ 'é'.encode('latin-1') }}":          "2: encoding 'latin-1'",
	} {
		if err := failing(t, source, want); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%q: %v: does not wrap ErrUnsupported", source, err)
		}
	}
}

// What is wrong with a template, or with what it was given, is no want of ours.
func TestFailures(t *testing.T) {
	for source, want := range map[string]string{
		"{{ messages\n.nope.x }}": "2: 'list object' has no attribute 'nope'",
		"\n{{ [1].append(2) }}":   "2: access to attribute 'append' of 'list' object is unsafe.",
		"\n{{ none.items() }}":    "2: 'None' has no attribute 'items'",
		"\n{% endif %}":           "2: Encountered unknown tag 'endif'.",
		"{% macro m() %}\n{{ x.y }}{% endmacro %}\n{{ m() }}":          "2: 'x' is undefined",
		"{% macro m(f) %}\n{{ f() }}{% endmacro %}\n{{ m() }}":         "2: parameter 'f' was not provided",
		"{% for m in messages %}\n\n{{ m.content + 'a' }}{% endfor %}": "3: unsupported operand type(s) for +: 'NoneType' and 'str'",
		"\n{{ raise_exception('no ' ~ messages[0].role) }}":            "2: no user",
		"\r\n{{ 'x' + }}": "2: unexpected 'end of print statement'",
	} {
		if err := failing(t, source, want); errors.Is(err, ErrUnsupported) {
			t.Errorf("%q: %v: wraps ErrUnsupported", source, err)
		}
	}
}

// failing renders a template and compares its error.
func failing(t *testing.T, source, want string) error {
	t.Helper()
	text, err := render(t, source, `{"messages": [{"role": "user", "content": null}]}`)
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%q: have %q, want an error", source, text)
	} else if have := err.Error(); have != "t: line "+want {
		t.Errorf("%q: have %q, want %q", source, have, "t: line "+want)
	}
	return err
}

// Errors come in the order of the template: what is not reached does not matter.
func TestUnreached(t *testing.T) {
	for _, source := range []string{
		"{% if false %}{{ 1|nope }}{{ nope() }}{{ none + 'a' }}{% include 'x' %}{% endif %}",
		"{{ 1 if true else nope() }}", "{% macro m() %}{{ nope() }}{% endmacro %}", "{% for x in [] %}{{ nope() }}{% endfor %}",
	} {
		if text, err := render(t, source, "{}"); err != nil || text != "" && text != "1" {
			t.Errorf("%q: %q, %v", source, text, err)
		}
	}
}
