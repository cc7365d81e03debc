package convert

import (
	"encoding/json"
	"math"
	"testing"
)

func TestPerplexity(t *testing.T) {
	none := Perplexity(math.Inf(1))
	for _, c := range []struct {
		value      Perplexity
		text, json string
	}{
		{10.56789, "10.568", "10.56789"},
		{999999.4, "999999.400", "999999.4"},
		{1e6, "1.000e+06", "1000000"},
		{math.MaxFloat64, "1.798e+308", "1.7976931348623157e+308"},
		{none, "infinite", "null"},
	} {
		if got := c.value.Text(3); got != c.text {
			t.Errorf("%v is written %s, want %s", float64(c.value), got, c.text)
		}
		data, err := json.Marshal(c.value)
		if err != nil || string(data) != c.json {
			t.Errorf("%v is %s in JSON, %v, want %s", float64(c.value), data, err, c.json)
		}
		var back Perplexity
		if err := json.Unmarshal(data, &back); err != nil || back != c.value {
			t.Errorf("%s is read as %v, %v", data, float64(back), err)
		}
	}
}
