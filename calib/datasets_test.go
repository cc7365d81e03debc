package calib

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDatasets finds the text of files with the schemas of well-known data
// sets: the same in Parquet and in JSON lines.
func TestDatasets(t *testing.T) {
	data, err := os.ReadFile("testdata/datasets/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]struct{ Columns, Texts []string }
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/datasets/*[lt]") // .jsonl and .parquet
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			want, ok := cases[strings.TrimSuffix(name, filepath.Ext(name))]
			if !ok {
				t.Fatal("expected.json does not have it")
			}
			records, err := readAll(path, "")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range records {
				got = append(got, r.Text)
			}
			if !slices.Equal(got, want.Texts) {
				t.Errorf("texts %q\nwant  %q", got, want.Texts)
			}
			s, err := Open(path, "")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			line := name + `: text of ` + strings.Join(want.Columns, ", ") + `, such as "` + want.Texts[0] + `"`
			if got := s.Describe(); got != line {
				t.Errorf("described as %s\nwant         %s", got, line)
			}
		})
	}
	if len(files) < len(cases) {
		t.Errorf("%d files for %d cases", len(files), len(cases))
	}
}

func TestDescribe(t *testing.T) {
	long := strings.Repeat("ä", 101)
	for content, want := range map[string]string{
		"A text\nof lines":                  `a.txt: text, such as "A text\nof lines"`,
		long:                                `a.txt: text, such as "` + strings.Repeat("ä", 100) + `..."`,
		"":                                  `a.txt: nothing to read`,
		`{"input_ids":[]}`:                  `a.txt: nothing to read`,
		`{"input_ids":[-100]}`:              `a.txt: token ids`,
		`{"input_ids":[5,6]}`:               `a.txt: token ids of input_ids, such as 5 6`,
		`{"a":null}` + "\n" + `{"b":"x\n"}`: `a.txt: text of b, such as "x\n"`,
		`{"a\u001b[2J":"x"}`:                `a.txt: text of a\x1b[2J, such as "x"`,
		`{"b":"x"` + "\n":                   `a.txt: text, such as "{\"b\":\"x\"\n"`,
	} {
		s := open(t, "a.txt", []byte(content))
		if got := s.Describe(); got != want {
			t.Errorf("%q is described as %s, want %s", content, got, want)
		}
	}
}

func TestIdentifiers(t *testing.T) {
	for name, want := range map[string]bool{
		"id": true, "ID": true, "prompt_id": true, "conversationId": true, "sessionID": true, "x.id": true, "md5": true, "sha256_hex": true, "hashed_ip": true, "uuid": true, "row-index": true,
		"": false, "idea": false, "text": false, "grid": false, "identity": false, "hashtag": false, "paid": false, "index_html": false, "äid": false, "_": false,
	} {
		if got := isIdentifier(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
