package main

import (
	"path/filepath"
	"strings"
	"testing"

	"exl2/infer/tokenizer"
)

// A draft model's tokens are those of the model, of which one may have more.
func TestSameTokens(t *testing.T) {
	load := func(dir ...string) *tokenizer.Tokenizer {
		t.Helper()
		k, err := tokenizer.Load(filepath.Join(append([]string{"..", "..", "testdata"}, dir...)...))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	tiny := load("models", "tiny")
	if err := sameTokens(tiny, load("golden", "exl2", "tiny-2.5bpw")); err != nil {
		t.Error(err)
	}
	err := sameTokens(load("golden", "tokenizer", "llama2"), tiny)
	if err == nil || !strings.Contains(err.Error(), "token 0 is ") || !strings.Contains(err.Error(), "give a model of the same tokens") {
		t.Errorf("another tokenizer: %v", err)
	}
}
