package jinja

import (
	"errors"
	"strings"
	"testing"
)

// quick is a tenth of the standard limits.
var quick = Limits{DefaultLimits.Steps / 10, DefaultLimits.Bytes / 10, DefaultLimits.Calls}

// render renders a template with the variables of a JSON object.
func render(t testing.TB, source, variables string) (string, error) {
	t.Helper()
	template, err := Parse("t", source)
	if err != nil {
		return "", err
	}
	v, err := ParseJSON([]byte(variables))
	if err != nil {
		t.Fatal(err)
	}
	return template.Render(v.(*Dict), Options{Limits: &quick})
}

// A hostile template ends with an error that names its line, and nothing else
// happens.
func TestHostileTemplates(t *testing.T) {
	loop := "{% for a in range(100000) %}{% for b in range(100000) %}"
	for name, source := range map[string]string{
		"endless loops":            loop + "{% endfor %}{% endfor %}",
		"much output":              loop + "{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}{% endfor %}",
		"text times":               "{{ 'a' * 10 ** 12 }}",
		"text times often":         "{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s * 99 %}{% endfor %}",
		"text doubled":             "{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
		"list times":               "{{ [1] * 10 ** 12 }}",
		"tuple doubled":            "{% set n = namespace(s=(1,)) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
		"list of itself twice":     "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s }}",
		"as JSON":                  "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s|tojson }}",
		"compared":                 "{% set n = namespace(s=[1], r=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% set n.r = [n.r, n.r] %}{% endfor %}{{ n.s == n.r }}",
		"nested deep":              "{% set n = namespace(s=[1]) %}{% for i in range(99999) %}{% set n.s = [n.s] %}{% endfor %}{{ n.s }}",
		"in itself":                "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
		"range":                    "{{ range(10 ** 12) }}",
		"range of big numbers":     "{{ range(10 ** 30, 10 ** 30 + 5) }}",
		"power":                    "{{ 9 ** (9 ** (9 ** 9)) }}",
		"digits":                   "{{ 2 ** 60000 }}",
		"squares":                  "{% set n = namespace(s=3) %}{% for i in range(99) %}{% set n.s = n.s * n.s %}{% endfor %}",
		"macro in itself":          "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"loop in itself":           "{% for i in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
		"call in itself":           "{% macro m() %}{% call m() %}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}",
		"generator in itself":      "{% set n = namespace(g=[1]) %}{% for i in range(99999) %}{% set n.g = n.g|map('string') %}{% endfor %}{{ n.g|list }}",
		"width":                    "{{ 'a'|center(10 ** 12) }}",
		"width of ljust":           "{{ 'a'.ljust(10 ** 12) }}",
		"width of zfill":           "{{ 'a'.zfill(10 ** 12) }}",
		"width of %":               "{{ '%999999999d' % 1 }}",
		"width in arguments":       "{{ '%*d' % (10 ** 12, 1) }}",
		"width of format":          "{{ '{:999999999}'.format(1) }}",
		"width of strftime":        "{{ strftime_now('%999999999d') }}",
		"precision":                "{{ '%.999999999f' % 1.0 }}",
		"precision of integers":    "{{ '%.999999999d' % 1 }}",
		"rounding":                 "{{ 1.5|round(10 ** 9) }}",
		"tabs":                     "{{ '\t'.expandtabs(10 ** 12) }}",
		"indent":                   "{{ 'a'|indent(10 ** 12) }}",
		"indent of JSON":           "{{ [1]|tojson(indent=10 ** 12) }}",
		"indent of nested JSON":    "{% set n = namespace(s=[1]) %}{% for i in range(5000) %}{% set n.s = [n.s] %}{% endfor %}{{ n.s|tojson(indent=1000) }}",
		"batch":                    "{{ [1]|batch(10 ** 12, 0)|list }}",
		"slice":                    "{{ [1]|slice(10 ** 12)|list }}",
		"replace nothing":          "{% set s = 'a' * 10 ** 7 %}{{ s.replace('', s) }}",
		"join":                     "{% set s = 'a' * 10 ** 7 %}{{ s|join(s) }}",
		"wrap":                     "{% set s = 'a ' * 10 ** 6 %}{{ s|wordwrap(1, wrapstring=s) }}",
		"arguments":                "{{ dict(*range(100000)) }}{{ cycler(*('a' * 10 ** 9)) }}",
		"characters of a long one": "{% set s = 'é' * 10 ** 7 %}" + loop + "{{ s[5000000] }}{% endfor %}{% endfor %}",
		"brackets":                 strings.Repeat("{{ (", 1) + strings.Repeat("(", 100_000),
		"brackets closed":          "{{ " + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000) + " }}",
		"signs":                    "{{ " + strings.Repeat("- ", 100_000) + "1 }}",
		"nots":                     "{{ " + strings.Repeat("not ", 100_000) + "1 }}",
		"ifs":                      strings.Repeat("{% if 1 %}", 100_000),
		"inline ifs":               "{{ " + strings.Repeat("1 if 0 else ", 100_000) + "1 }}",
		"a long sum":               "{{ " + strings.Repeat("1 + ", 100_000) + "1 }}",
		"attributes":               "{{ x" + strings.Repeat(".a", 100_000) + " }}",
		"filters":                  "{{ 1" + strings.Repeat("|string", 100_000) + " }}",
		"a long template":          strings.Repeat("a", maxSource+1),
		"number":                   "{{ " + strings.Repeat("9", 100_000) + " }}",
	} {
		t.Run(name, func(t *testing.T) {
			text, err := render(t, source, `{"x": {}}`)
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 {
				t.Fatalf("have %.50q and %v, want an error", text, err)
			}
			if !strings.HasPrefix(err.Error(), "t: line 1: ") {
				t.Errorf("%v does not name the line", err)
			}
		})
	}
}

// What real templates do is far from the limits.
func TestLimitsLeaveRoom(t *testing.T) {
	for name, source := range map[string]string{
		"a macro 100 deep":     "{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(100) }}",
		"many steps":           "{% for a in range(200) %}{% for b in range(1000) %}{% endfor %}{% endfor %}",
		"a text that grows":    "{% set n = namespace(s='') %}{% for i in range(50) %}{% set n.s = n.s ~ 'x' * 9999 %}{% endfor %}{{ n.s }}",
		"500 brackets in turn": strings.Repeat("{{ ((1)) }}", 500),
		"a long chain":         "{{ '' " + strings.Repeat("+ 'x' ", 1000) + "}}",
	} {
		if _, err := render(t, source, "{}"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
