package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ParseJSON reads a JSON value as Python does: objects keep their order, and
// numbers with a point or an exponent are floats.
func ParseJSON(text []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readJSON(d)
	if errors.Is(err, io.EOF) {
		err = errors.New("the JSON has no end")
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the JSON value")
	}
	return v, nil
}

// readJSON reads the decoder's next value. The decoder itself bounds how deep
// values are nested.
func readJSON(d *json.Decoder) (Value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return number(string(t))
	case json.Delim:
		if t == '[' {
			return readArray(d)
		}
		return readObject(d)
	}
	return t, nil
}

func readArray(d *json.Decoder) (Value, error) {
	l := &List{}
	for d.More() {
		v, err := readJSON(d)
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, v)
	}
	_, err := d.Token()
	return l, err
}

func readObject(d *json.Decoder) (Value, error) {
	o := &Dict{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := readJSON(d)
		if err != nil {
			return nil, err
		}
		o.Set(key.(string), v)
	}
	_, err := d.Token()
	return o, err
}

func number(s string) (Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !math.IsInf(f, 0) {
			return nil, err
		}
		return f, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n == n<<1>>1 {
		return int(n), nil
	}
	if len(strings.TrimPrefix(s, "-")) > maxDigits {
		return nil, fmt.Errorf("number %.20s... has more than %d digits", s, maxDigits)
	}
	b, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("%.20s is no number", s)
	}
	return b, nil
}

// A jsonWriter writes values as json.dumps does.
type jsonWriter struct {
	builder
	ascii, sorted bool
	indent        string
	lines         bool // whether indent was given
	comma, colon  string
}

// tojson is transformers' filter. Unlike Jinja's it escapes nothing for HTML.
var tojson = function("tojson", "x, ensure_ascii=False, indent=None, separators=None, sort_keys=False", func(m *machine, a []Value) Value {
	w := &jsonWriter{builder: builder{m: m}, ascii: truth(a[1]), sorted: truth(a[4]), comma: ", ", colon: ": "}
	if a[2] != nil {
		w.lines, w.comma = true, ","
		if s, ok := textOf(a[2]); ok {
			w.indent = s
		} else {
			w.indent = m.padded("", " ", wantInt(a[2]), "", 0)
		}
	}
	if a[3] != nil {
		pair := m.unpack(a[3], 2)
		comma, ok1 := textOf(pair[0])
		colon, ok2 := textOf(pair[1])
		if !ok1 || !ok2 {
			raise(TypeError, "tojson: separators must be strings")
		}
		w.comma, w.colon = comma, colon
	}
	w.value(a[0], "\n")
	return w.String()
})

// value writes a value; line is what a new line begins with.
func (w *jsonWriter) value(v Value, line string) {
	w.m.step(1)
	w.m.enter()
	defer w.m.leave()
	switch v := v.(type) {
	case nil:
		w.write("null")
	case bool:
		w.write(strings.ToLower(boolText(v)))
	case int, *big.Int:
		w.write(w.m.repr(v))
	case float64:
		w.write(jsonFloat(v))
	case string:
		w.text(v)
	case Markup:
		w.text(string(v))
	case *List:
		w.array(v.items, line)
	case *Tuple:
		w.array(v.items, line)
	case *Dict:
		w.object(v, line)
	default:
		raise(TypeError, "Object of type %s is not JSON serializable", typeName(v))
	}
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatText(f)
}

// separate writes what is in front of element i.
func (w *jsonWriter) separate(i int, inner string) {
	if i > 0 {
		w.write(w.comma)
	}
	if w.lines {
		w.write(inner)
	}
}

// inner returns what a line begins with one level deeper.
func (w *jsonWriter) inner(line string) string {
	if w.indent == "" {
		return line
	}
	w.m.reserve(len(line) + len(w.indent))
	return line + w.indent
}

func (w *jsonWriter) array(items []Value, line string) {
	if len(items) == 0 {
		w.write("[]")
		return
	}
	inner := w.inner(line)
	w.write("[")
	for i, x := range items {
		w.separate(i, inner)
		w.value(x, inner)
	}
	if w.lines {
		w.write(line)
	}
	w.write("]")
}

func (w *jsonWriter) object(d *Dict, line string) {
	if len(d.entries) == 0 {
		w.write("{}")
		return
	}
	entries := d.entries
	if w.sorted {
		entries = nil
		keys := w.m.sort(w.m.list(d), func(k Value) Value { return k }, false)
		for _, k := range keys {
			v, _ := w.m.find(d, k)
			entries = append(entries, entry{key: k, value: v})
		}
	}
	inner := w.inner(line)
	w.write("{")
	for i, e := range entries {
		w.separate(i, inner)
		w.text(w.key(e.key))
		w.write(w.colon)
		w.value(e.value, inner)
	}
	if w.lines {
		w.write(line)
	}
	w.write("}")
}

// key returns a dict's key as text.
func (w *jsonWriter) key(v Value) string {
	if s, ok := textOf(v); ok {
		return s
	}
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strings.ToLower(boolText(v))
	case float64:
		return jsonFloat(v)
	case int, *big.Int:
		return w.m.repr(v)
	}
	raise(TypeError, "keys must be str, int, float, bool or None, not %s", typeName(v))
	return ""
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// text writes a string.
func (w *jsonWriter) text(s string) {
	w.m.step(len(s) / 64)
	w.grow(len(s) + 2)
	w.write(`"`)
	start := 0
	for i, r := range s {
		escape := ""
		switch {
		case r == utf8.RuneError && !w.ascii: // may stand for a byte that is no character
			escape = string(r)
		case r >= ' ' && r <= '~' && r != '"' && r != '\\' || r > '~' && !w.ascii:
			continue
		default:
			escape = jsonEscape(r)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		w.write(s[start:i])
		w.write(escape)
		start = i + n
	}
	w.write(s[start:])
	w.write(`"`)
}

// jsonEscape returns the escape of a character.
func jsonEscape(r rune) string {
	switch e := jsonEscapes[r]; {
	case e != "":
		return e
	case r < 0x10000:
		return numbered(`\u`, r, 4)
	}
	hi, lo := utf16.EncodeRune(r)
	return numbered(`\u`, hi, 4) + numbered(`\u`, lo, 4)
}
