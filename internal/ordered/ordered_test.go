package ordered

import (
	"encoding/json"
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

func TestRefusals(t *testing.T) {
	for name, text := range map[string]string{
		"a list": `[]`, "a repeated field": `{"a":1,"a":2}`, "cut short": `{"a":`, "a number": `1`,
	} {
		var o Object
		if err := json.Unmarshal([]byte(text), &o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
