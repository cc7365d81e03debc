package tokenizer

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/goldens"

	"pgregory.net/rapid"
)

// A goldenCase is one element of a cases.json: what the reference library
// makes of a text. IDs and DecodedSkip are absent for SentencePiece.
type goldenCase struct {
	Text        string  `json:"text"`
	IDs         []int32 `json:"ids"`
	IDsPlain    []int32 `json:"ids_plain"`
	Decoded     string  `json:"decoded"`
	DecodedSkip *string `json:"decoded_skip"`
}

// readCases reads the cases of a golden folder.
func readCases(t testing.TB, dir string) []goldenCase {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s: no cases", dir)
	}
	return cases
}

// load is Load for folders that must be good.
func load(t testing.TB, dir string) *Tokenizer {
	t.Helper()
	tok, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// plain and around return the ids of a text without and with the template.
func plain(t rapid.TB, tok *Tokenizer, text string) []int32 {
	t.Helper()
	return encoded(t, tok, text, EncodeOptions{})
}

func around(t rapid.TB, tok *Tokenizer, text string) []int32 {
	t.Helper()
	return encoded(t, tok, text, EncodeOptions{Template: true})
}

func encoded(t rapid.TB, tok *Tokenizer, text string, o EncodeOptions) []int32 {
	t.Helper()
	ids, err := tok.Encode(context.Background(), text, o)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestGolden(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "tokenizer") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			tok := load(t, dir)
			for _, c := range readCases(t, dir) {
				checkCase(t, tok, c)
			}
		})
	}
}

// checkCase compares everything that a tokenizer does with one case.
func checkCase(t *testing.T, tok *Tokenizer, c goldenCase) {
	t.Helper()
	name := c.Text
	if len(name) > 40 {
		name = name[:40] + "..."
	}
	checkIDs(t, name+": EncodePlain", plain(t, tok, c.Text), c.IDsPlain)
	checkText(t, name+": Decode", tok.Decode(c.IDsPlain, DecodeOptions{}), c.Decoded)
	checkText(t, name+": NewStream", streamed(t, tok.NewStream(DecodeOptions{}), c.IDsPlain), c.Decoded)
	if c.DecodedSkip == nil {
		return
	}
	checkIDs(t, name+": Encode", around(t, tok, c.Text), c.IDs)
	checkText(t, name+": DecodeSkip", tok.Decode(c.IDs, DecodeOptions{SkipSpecial: true}), *c.DecodedSkip)
	checkText(t, name+": NewStreamSkip", streamed(t, tok.NewStream(DecodeOptions{SkipSpecial: true}), c.IDs), *c.DecodedSkip)
}

// streamed returns what a stream makes of ids, and fails on broken characters.
func streamed(t *testing.T, s *Stream, ids []int32) string {
	t.Helper()
	var b strings.Builder
	for _, id := range ids {
		part := s.Next(id)
		if strings.ToValidUTF8(part, "") != part {
			t.Errorf("Next(%d) = %q, not whole characters", id, part)
		}
		b.WriteString(part)
	}
	b.WriteString(s.Flush())
	return b.String()
}

func checkIDs(t *testing.T, what string, got, want []int32) {
	t.Helper()
	if !slices.Equal(got, want) {
		n := 0
		for n < min(len(got), len(want)) && got[n] == want[n] {
			n++
		}
		t.Errorf("%s: %d ids, want %d; from %d on %v, want %v", what, len(got), len(want), n, clip(got[n:]), clip(want[n:]))
	}
}

// clip shortens ids for a message.
func clip(ids []int32) []int32 { return ids[:min(len(ids), 12)] }

func checkText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
