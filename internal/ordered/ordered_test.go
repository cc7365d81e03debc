package ordered

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestOrderIsKept(t *testing.T) {
	const text = `{"z":1,"a":{"y":2,"b":[3]},"m":null}`
	var o Object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(o); err != nil || string(out) != text {
		t.Errorf("%s, %v", out, err)
	}
	o.Set("a", "new")
	o.Set("last", 4)
	if out, err := json.Marshal(o); err != nil || string(out) != `{"z":1,"a":"new","m":null,"last":4}` {
		t.Errorf("%s, %v", out, err)
	}
	if v, ok := o.Get("last"); !ok || v != 4 {
		t.Errorf("last is %v", v)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                        `{}`,
		` { "a" : [ 1 ] , "b":{}} `: `{"a":[1],"b":{}}`,
		`{"a":1,"b":2,"a":3}`:       `{"a":3,"b":2}`,
	} {
		o, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if out, err := json.Marshal(o); err != nil || string(out) != want {
			t.Errorf("%s became %s, %v, want %s", text, out, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	cases := []struct{ name, text, want string }{
		{"a list", `[]`, `not a JSON object: "[]"`},
		{"a number", `1`, `not a JSON object: "1"`},
		{"nothing", ``, `not a JSON object: ""`},
		{"a value that is cut short", `{"a":`, `"a": unexpected EOF`},
		{"a name that is missing", `{"a":1,`, `not a JSON object: unexpected EOF`},
		{"an object that is cut short", `{"a":1`, `a JSON object without an end`},
		{"a comma too many", `{"a":1,}`, `not a JSON object: `},
		{"text behind", `{} {}`, `text after the JSON object`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			var o Object
			if json.Unmarshal([]byte(c.text), &o) == nil {
				t.Error("Unmarshal: no error")
			}
		})
	}
	var o Object
	if err := json.Unmarshal([]byte(`{"a":1,"a":2}`), &o); err == nil || !strings.Contains(err.Error(), `"a": stands there twice`) {
		t.Errorf("a repeated field: error %v", err)
	}
}

// TestManyFields reads an object of 200,000 fields; looking at all of them for
// each would take minutes.
func TestManyFields(t *testing.T) {
	const n = 200_000
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	o, err := Parse([]byte("{" + b.String()[1:] + "}"))
	if err != nil || len(o) != n || string(o[n-1].Raw()) != fmt.Sprint(n-1) {
		t.Errorf("%d fields, %v", len(o), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[{"c":null}],"a":"x"}`))
	f.Add([]byte(`{"a":1,}`))
	f.Add([]byte(`{"\ud800":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Parse(text)
		var m map[string]json.RawMessage
		standard := json.Unmarshal(text, &m)
		if (err == nil) != (standard == nil && m != nil) {
			t.Fatalf("%q: %v, encoding/json says %v", text, err, standard)
		}
		if len(o) != len(m) {
			t.Errorf("%d fields, encoding/json has %d", len(o), len(m))
		}
		for _, field := range o {
			if string(field.Raw()) != string(m[field.Name]) {
				t.Errorf("%q is %s, encoding/json has %s", field.Name, field.Raw(), m[field.Name])
			}
		}
	})
}
