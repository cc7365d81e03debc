package jinja

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
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
		"tuple of itself as a key": "{% set n = namespace(s=(1,)) %}{% for i in range(99) %}{% set n.s = (n.s, n.s) %}{% endfor %}{{ {n.s: 1} }}",
		"tuple nested as a key":    "{% set n = namespace(s=(1,)) %}{% for i in range(99999) %}{% set n.s = (n.s,) %}{% endfor %}{{ {n.s: 1} }}",
		"arguments of filters":     "{{ range(1000)|map('map', 'upper', *range(100000))|list }}",
		"attributes to sort by":    "{{ range(1000)|sort(attribute=',' * 100000) }}",
		"parameters":               "{% macro m(" + manyNames(9999) + ") %}{% endmacro %}" + loop + "{{ m() }}{% endfor %}{% endfor %}",
		"variables":                loop + "{% if b < 0 %}{% set " + manyNames(9999) + " = x %}{% endif %}{% endfor %}{% endfor %}",
		"integer from text":        "{{ ('f' * 17000)|int(base=16) }}",
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

// manyNames returns a list of n names.
func manyNames(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("a%d", i)
	}
	return strings.Join(list, ", ")
}

// Work counts: what is done again and again with a long text or list s, or one like it in z,
// comes to an end soon.
func TestWorkCounts(t *testing.T) {
	texts := map[string]string{
		"letters": "a", "words": "aB ", "lines": "\n", "hyphens": "a-", "accents": "é", "wide": "日", "control": "\x01", "tabs": "\t",
		"tags": "<a>", "comments": "<!-->", "entities": "&lt;", "hosts": "http://a.b/ ", "fields": "{0}", "percents": "%n", "digits": "1",
	}
	limits := Limits{DefaultLimits.Steps / 400, DefaultLimits.Bytes / 400, DefaultLimits.Calls}
	for _, work := range strings.Split(workOnTexts, "\n") {
		template, err := Parse("t", "{% for a in range(100000) %}{% for b in range(1000) %}{% set x = "+work+" %}{% endfor %}{% endfor %}")
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range texts {
			text = strings.Repeat(text, 100_000/len(text))
			start, v := time.Now(), &Dict{}
			v.Set("s", text)
			v.Set("z", strings.Clone(text))
			v.Set("l", NewList(text, text, text))
			template.Render(v, Options{Limits: &limits}) // most often it fails
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("%s of %s takes %v", work, name, took)
			}
		}
	}
}

const workOnTexts = `s|wordwrap(1)
s|wordwrap(70000, false)
s|upper
s|title
s.title()
s.swapcase()
s.isalnum()
s is lower
s|int
s|float
s|urlize
s|striptags
s|escape
s|urlencode
s|indent
s.splitlines()
s.split()
s.rsplit('a')
s.strip('ab')
s.replace(z, 'b')
s == z
s < z
s is sameas(z)
s in z
s.find(z[1:] ~ 'x')
s.startswith((z, z))
s.removeprefix(z)
s.partition('zz')
l == l
l|sort
l|unique|list
l.count(z)
{s: 1}[z]
{}[s]
(s,) in {(z,): 1}
s|tojson(ensure_ascii=true)
[s]|string
'%a' % s
s.format('')
s % {}
s.expandtabs()
s|wordcount
s|length
s|truncate
s[1:-1]
s.center(1)
strftime_now(s)
[1]|map(attribute=s)|list
9 ** 20000
9 ** 20000 / 7 ** 20000
'{:_b}'.format(9 ** 20000)`

// What is too large is not made, nor much more than the limit in buffers.
func TestBytesAreCountedFirst(t *testing.T) {
	limits := &Limits{DefaultLimits.Steps, 16 << 20, DefaultLimits.Calls}
	for _, source := range []string{
		"range(100000)|join('x' * 100000)", "('\t' * 1000).expandtabs(10 ** 8)", "('\t' * 1000).expandtabs(2 ** 60)", "'y'.join('x' * 10 ** 7)",
		"['x' * 10 ** 6] * 100", "(['x' * 10 ** 6] * 100)|join", "(['x' * 10 ** 6] * 100)|string", "(['x' * 10 ** 6] * 100)|tojson",
		"('\n' * 10 ** 7)|indent", "('\n' * 10 ** 7).splitlines()", "('a ' * 5 * 10 ** 6).split()", "('a ' * 5 * 10 ** 6)|wordcount",
		"('a ' * 5 * 10 ** 6)|striptags", "('a.com ' * 10 ** 6)|urlize", "('a' * 10 ** 7)|wordwrap(1)", "('a' * 10 ** 6)|wordwrap(1, wrapstring='b' * 99)",
		"('\x01' * 10 ** 7)|tojson", "('é' * 10 ** 6)|urlencode", "('<' * 10 ** 7)|e", "'a'|center(10 ** 7)", "'a'.zfill(10 ** 7)", "'%10000000d' % 1",
		"('%s' * 100) % (('a' * 10 ** 6,) * 100)", "('{0}' * 100).format('a' * 10 ** 6)", "('a' * 10 ** 4).replace('a', 'b' * 10 ** 4)",
		"[1] * 10 ** 6", "([1] * 10 ** 5)|batch(1)|list", "[1]|batch(10 ** 6, 0)|list", "[1]|slice(10 ** 6)|list", "('a' * 10 ** 7)|list", "('a' * 10 ** 7)[::2]",
		"('a' * 10 ** 7) ~ 'b' * 10 ** 7", "('f' * 10 ** 7)|int(base=16)",
	} {
		template, err := Parse("t", "{% set x = "+source+" %}{% set y = x ~ x %}")
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		template.Render(&Dict{}, Options{Limits: limits}) // most of it fails
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > uint64(limits.Bytes)*3/2 {
			t.Errorf("%s makes %d bytes, the limit is %d", source, made, limits.Bytes)
		}
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
