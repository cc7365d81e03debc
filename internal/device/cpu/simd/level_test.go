package simd

import (
	"strings"
	"testing"
)

func TestLevelFromEnv(t *testing.T) {
	for _, c := range []struct {
		text string
		want Level
		err  string
	}{
		{"", Supported(), ""},
		{"none", None, ""},
		{"avx2", AVX2, "best is none"},
		{"avx512", AVX512, "best is "},
		{"AVX2", None, "want avx512, avx2 or none"},
		{"sse", None, "want avx512, avx2 or none"},
	} {
		got, err := levelFromEnv(c.text)
		switch {
		case c.err == "" || err == nil && c.want <= Supported():
			if err != nil || got != c.want {
				t.Errorf("EXL2_SIMD=%q: %v, %v, want %v", c.text, got, err, c.want)
			}
		case err == nil || !strings.Contains(err.Error(), c.err):
			t.Errorf("EXL2_SIMD=%q: error %v, want one with %q", c.text, err, c.err)
		}
	}
}
