package model_test

import (
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/model"
)

// Without a rope nothing rotates: a token alone, at position 0, has the logits it
// has with one, and behind another it has others.
func TestNoRope(t *testing.T) {
	load := func() *model.Loader {
		l, files, err := model.Open(filepath.Join("..", "..", "testdata", "golden", "arch", "llama"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { files.Close() })
		return l
	}
	with, without := load(), load()
	without.Spec.Rope = nil
	if a, b := logits(t, with, []int32{5}, 1, 1), logits(t, without, []int32{5}, 1, 1); !slices.Equal(a, b) {
		t.Error("a token at position 0 has other logits without a rope")
	}
	a, b := logits(t, with, []int32{7, 5}, 1, 2), logits(t, without, []int32{7, 5}, 1, 2)
	if n := len(a) / 2; !slices.Equal(a[:n], b[:n]) || slices.Equal(a[n:], b[n:]) {
		t.Error("want the logits of position 0 equal, those of position 1 not")
	}
}
