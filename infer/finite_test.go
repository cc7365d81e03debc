package infer

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, c := range map[string]struct {
		rows [][]float32
		want string // in the error, "" for none
	}{
		"none":        {nil, ""},
		"empty":       {[][]float32{{}}, ""},
		"large":       {[][]float32{{math.MaxFloat32, -math.MaxFloat32, 0}}, ""},
		"NaN":         {[][]float32{{0, 1}, {2, nan}}, "token 1 in row 1 of 2 is NaN"},
		"infinity":    {[][]float32{{inf, 1}}, "token 0 in row 0 of 1 is +Inf"},
		"- infinity":  {[][]float32{{1, 2, -inf}}, "token 2 in row 0 of 1 is -Inf"},
		"inf and NaN": {[][]float32{{-inf, inf, nan}}, "token 0 in row 0 of 1 is -Inf"},
	} {
		err := finite(c.rows)
		if (c.want == "") != (err == nil) || err != nil && (!errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
