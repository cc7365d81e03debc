package regular

import (
	"encoding/json"
	"fmt"
	"testing"
)

// Names are those of the file to the letter, however deep; errors say which field has what.
func TestUnmarshal(t *testing.T) {
	type inner struct {
		N int `json:"n"`
	}
	type outer struct {
		Text  string           `json:"text,omitempty"`
		One   inner            `json:"one"`
		Maybe *inner           `json:"maybe"`
		List  []inner          `json:"list"`
		Named map[string]inner `json:"named"`
		Raw   json.RawMessage  `json:"raw"`
		Loud  *float64         `json:"loud"`
	}
	for text, want := range map[string]string{
		`{"text": "a", "one": {"n": 1}, "maybe": {"n": 2}, "list": [{"n": 3}], "named": {"x": {"n": 4}}, "raw": {"N": 5}}`: `{"text":"a","one":{"n":1},"maybe":{"n":2},"list":[{"n":3}],"named":{"x":{"n":4}},"raw":{"N":5},"loud":null}`,
		`{"Text": "a", "one": {"N": 1}, "maybe": {"N": 2}, "list": [{"N": 3}], "named": {"x": {"N": 4}}, "n": 5}`:          `{"one":{"n":0},"maybe":{"n":0},"list":[{"n":0}],"named":{"x":{"n":0}},"raw":null,"loud":null}`,
		`{"one": null, "maybe": null, "list": null, "named": null, "loud": null}`:                                          `{"one":{"n":0},"maybe":null,"list":null,"named":null,"raw":null,"loud":null}`,

		`{"one": {"n": "1"}}`:                  `one.n: have a JSON string, want a whole number in range (int)`,
		`{"maybe": {"n": 0.5}}`:                `maybe.n: have a JSON number 0.5, want a whole number in range (int)`,
		`{"list": [{}, {"n": []}]}`:            `list[1].n: have a JSON array, want a whole number in range (int)`,
		`{"named": {"b": {"n": ""}, "a": 4}}`:  `named.a: have a JSON number, want an object`,
		`{"loud": {"__float__": "-Infinity"}}`: `loud: have -Infinity, want a number`,
		`[]`:                                   `have a JSON array, want an object`,
		`{"list": 4}`:                          `list: have a JSON number, want a list`,
		`{"text": "a"`:                         `unexpected end of JSON input`,
	} {
		var v outer
		err := Unmarshal([]byte(text), &v)
		have, _ := json.Marshal(v)
		if err != nil {
			have = fmt.Append(nil, err)
		}
		if string(have) != want {
			t.Errorf("%s:\n%s, want\n%s", text, have, want)
		}
	}
}
