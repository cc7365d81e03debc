package ordered

import (
	"encoding/json"
	"testing"
)

func TestFromPython(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1}`:                                   `{"a": 1}`,
		`{"a": NaN, "b": [Infinity, -Infinity]}`:     `{"a": null, "b": [null, null]}`,
		`{"NaN": "NaN", "b\"": "\\", "c": NaN}`:      `{"NaN": "NaN", "b\"": "\\", "c": null}`,
		`{"a": "\\\" NaN", "b": "-Infinity", "c":1}`: `{"a": "\\\" NaN", "b": "-Infinity", "c":1}`,
		`NaN"NaN\`: `null"NaN\`,
		`-NaN`:     `-null`, // of which no reader makes a number
	} {
		if got := string(FromPython([]byte(text), Null)); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

// Numbers that are tagged mean what transformers 5 writes, and stand again as they stood when
// the rest has been read and written; what transformers 5 has written stays.
func TestTagged(t *testing.T) {
	const text = `{
    "a": NaN,
    "b": [
        Infinity,
        -Infinity
    ],
    "c": {
        "__float__": "Infinity"
    },
    "d": "{\"__float__\": \"NaN\"} NaN"
}`
	data := FromPython([]byte(text), Tagged)
	var read struct {
		A, C map[string]string
		B    []map[string]string
	}
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"NaN", "Infinity", "-Infinity", "Infinity"} {
		if got := append(append([]map[string]string{read.A}, read.B...), read.C)[i]["__float__"]; got != want {
			t.Errorf("number %d is %q, want %q", i, got, want)
		}
	}
	o, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(o, "", "    ")
	if got := string(Untagged(out)); err != nil || got != text {
		t.Errorf("%s, %v, want %s", got, err, text)
	}
}
