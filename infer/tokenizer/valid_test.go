package tokenizer

import "testing"

func TestValid(t *testing.T) {
	for text, want := range map[string]string{"": "", "aé€😀": "aé€😀", "\xe9\xe9": "\uFFFD\uFFFD", "a\xe2\x82b": "a\uFFFD\uFFFDb", "\uFFFD": "\uFFFD"} {
		if got := Valid(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
