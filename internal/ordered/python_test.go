package ordered

import "testing"

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
	if got := string(FromPython([]byte(`[-Infinity]`), Tagged)); got != `[{"__float__": "-Infinity"}]` {
		t.Errorf("tagged: %s", got)
	}
}
