package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Prompts are read as evaluation data are: a mark in front of UTF-8 is no part of the text,
// UTF-16 and what is no text is refused, and that bytes are not UTF-8 is said.
func TestPromptText(t *testing.T) {
	tiny := filepath.Join("..", "..", "testdata", "models", "tiny")
	for _, c := range []struct{ name, data, want, err, note string }{
		{"plain", "Hé\r\n", "Hé\r\n", "", ""},
		{"with a mark", "\xef\xbb\xbfHé", "Hé", "", ""},
		{"a mark within", "H\xef\xbb\xbfé", "H\ufeffé", "", ""},
		{"UTF-16", "\xff\xfeH\x00", "", "UTF-16 text: convert it to UTF-8", ""},
		{"UTF-16, the other way", "\xfe\xff\x00H", "", "UTF-16 text: convert it to UTF-8", ""},
		{"UTF-16 without a mark", "H\x00i\x00", "", "not text: byte 1 is 0", ""},
		{"Latin-1", "H\xe9", "H\xe9", "", "note: the prompt is not all UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "prompt.txt")
			if err := os.WriteFile(path, []byte(c.data), 0o666); err != nil {
				t.Fatal(err)
			}
			stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			var out strings.Builder
			a := &app{out: &writer{to: &out}, err: stderr}
			err = a.execute(t.Context(), []string{"infer", "-m", tiny, "--prompt-file", path, "-t", "0", "--show-prompt", "--progress", "none"})
			notes, _ := os.ReadFile(stderr.Name())
			switch {
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("error %v, want %q in it", err, c.err)
			case c.err == "" && (err != nil || !strings.HasPrefix(out.String(), c.want+"\n[")):
				t.Errorf("%q, %v; want %q", out.String(), err, c.want)
			case !strings.Contains(string(notes), c.note) || c.note == "" && strings.Contains(string(notes), "note"):
				t.Errorf("notes %q, want %q", string(notes), c.note)
			}
		})
	}
}
