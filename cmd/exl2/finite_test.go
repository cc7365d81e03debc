package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withHead copies the tiny model and sets an element of its head, which is F16.
func withHead(t *testing.T, element uint16) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "testdata", "models", "tiny"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(data)
	var header map[string]struct {
		DType   string `json:"dtype"`
		Offsets []int  `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	head := header["lm_head.weight"]
	if head.DType != "F16" {
		t.Fatalf("head of type %q", head.DType)
	}
	binary.LittleEndian.PutUint16(data[int(8+n)+head.Offsets[0]:], element)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Logits that are NaN or infinite end every command that sees them, with the
// model's name, and print no result.
func TestNotFinite(t *testing.T) {
	const good = "../../testdata/models/tiny"
	text := filepath.Join("..", "..", "testdata", "heldout.txt")
	nan, infinite := withHead(t, 0x7fff), withHead(t, 0x7c00)
	for _, args := range [][]string{
		{"ppl", "-m", nan, "-ed", text, "-er", "1", "-el", "32"},
		{"ppl", "-m", infinite, "-ed", text, "-er", "1", "-el", "32"},
		{"ppl", "-m", good, "-ed", text, "-er", "1", "-el", "32", "--reference", nan},
		{"infer", "-m", nan, "-p", "Once", "-t", "4"},
		{"infer", "-m", infinite, "-p", "Once", "-t", "4"},
		{"bench", "-m", nan, "-p", "16", "-n", "0", "-r", "1"},
		{"bench", "-m", infinite, "-p", "0", "-n", "4", "-r", "1"},
	} {
		code, stderr := command(t, args...)
		if code != exitFailed || !strings.Contains(stderr, "logits are not finite: that of token 0 in row") {
			t.Errorf("%v: exit code %d, want %d:\n%s", args, code, exitFailed, stderr)
		}
	}
}
