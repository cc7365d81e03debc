package calib

import (
	"strings"
	"testing"
)

// Text that is not all UTF-8 is read, byte by byte, and it is told.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name, file, content, want string
		told                      bool
	}{
		{"text", "a.txt", "é", "é", false},
		{"Latin-1", "a.txt", "caf\xe9\xe9!", "caf\uFFFD\uFFFD!", true},
		{"JSON lines", "a.jsonl", "{\"text\":\"é\"}\n", "é", false},
		{"JSON lines in Latin-1", "a.jsonl", "{\"text\":\"caf\xe9\xe9\"}\n", "caf\uFFFD\uFFFD", true},
		{"a replacement that stands there", "a.txt", "\uFFFD", "\uFFFD", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(place(t, c.file, []byte(c.content)), "")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var text string
			for r, err := range s.Records() {
				if err != nil {
					t.Fatal(err)
				}
				text += r.Text
			}
			if damage := s.Damage(); text != c.want || (damage != "") != c.told || c.told && !strings.HasPrefix(damage, c.file+": not all of the text is UTF-8") {
				t.Errorf("%q, %q", text, damage)
			}
		})
	}
}

// A beginning of what is no text at all ends somewhere.
func TestBeginningOfContinuations(t *testing.T) {
	s, err := Open(place(t, "a.txt", []byte(strings.Repeat("\x80", 100))), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, length := range []int{1, 50, 99, 100} {
		text, whole, err := s.joined(length)
		if err != nil || whole != (length == 100) || whole && text != strings.Repeat("\uFFFD", 100) {
			t.Errorf("%d: %q, %v, %v", length, text, whole, err)
		}
	}
}
