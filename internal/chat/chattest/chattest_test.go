package chattest

import "testing"

// A golden that could not fail is no golden.
func TestComplete(t *testing.T) {
	text := "hello"
	for _, c := range []struct {
		name  string
		cases []goldenCase
		ok    bool
	}{
		{"a text", []goldenCase{{Name: "a", Expected: &text}}, true},
		{"an error", []goldenCase{{Name: "a", ErrorType: "TypeError"}}, true},
		{"none", nil, false},
		{"nothing expected", []goldenCase{{Name: "a", Expected: &text}, {Name: "b"}}, false},
	} {
		if err := complete(c.cases); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
