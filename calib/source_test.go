package calib

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestToldApartByContent opens each kind under the names of the others.
func TestToldApartByContent(t *testing.T) {
	contents := map[string][]byte{
		"parquet": writeParquet(t, []fixture{texts("text", []any{"a b"})}),
		"jsonl":   []byte("{\"text\": \"a b\"}\n"),
		"txt":     []byte("a b"),
	}
	for kind, content := range contents {
		for _, name := range []string{"a.parquet", "a.jsonl", "a.txt", "a"} {
			t.Run(kind+" as "+name, func(t *testing.T) {
				path := place(t, name, content)
				s, err := Open(path, "")
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if s.Name() != name || s.HasTokens() {
					t.Errorf("name %q, tokens %v", s.Name(), s.HasTokens())
				}
				got, err := readAll(path, "")
				if want := []Record{{Row: 1, Text: "a b"}}; err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("read %+v, %v, want %+v", got, err, want)
				}
			})
		}
	}
}

func TestPlainText(t *testing.T) {
	cases := []struct{ name, content, want string }{
		{"as it is", "  a\r\n\n\nb \n", "  a\r\n\n\nb \n"},
		{"without the byte order mark", "\xef\xbb\xbfa", "a"},
		{"invalid UTF-8", "a\xffb\xc3", "a\uFFFDb\uFFFD"},
		{"JSON over several lines, and more", "{\n\"text\": \"a\"\n}\nor so\n", "{\n\"text\": \"a\"\n}\nor so\n"},
		{"first line is not quite JSON", "{\"text\": \"a\"} or so\n{}", "{\"text\": \"a\"} or so\n{}"},
		{"blank", " \n", " \n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := readAll(place(t, "a.jsonl", []byte(c.content)), "")
			if want := []Record{{Row: 1, Text: c.want}}; err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("read %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestEmptyFilesHaveNoRecords(t *testing.T) {
	for name, content := range map[string]string{"no bytes": "", "only a byte order mark": "\xef\xbb\xbf"} {
		t.Run(name, func(t *testing.T) {
			if got, err := readAll(place(t, "a", []byte(content)), ""); err != nil || got != nil {
				t.Errorf("read %+v, %v, want nothing", got, err)
			}
		})
	}
}

func TestWhatIsNotText(t *testing.T) {
	cases := []struct{ name, content, want string }{
		{"Git LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "a Git LFS pointer, not the file itself: git lfs pull fetches that"},
		{"gzip", "\x1f\x8b\x08", "a gzip file: unpack it first"},
		{"zstd", "\x28\xb5\x2f\xfd\x00", "a zstd file: unpack it first"},
		{"zip", "PK\x03\x04", "a zip file: unpack it first"},
		{"Arrow", "ARROW1\x00\x00", "an Arrow file: write it again as Parquet"},
		{"UTF-16", "\xff\xfea\x00", "UTF-16 text: convert it to UTF-8"},
		{"zeros", "ab\x00", "neither Parquet nor text: byte 2 is 0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := place(t, "a.txt", []byte(c.content))
			_, err := readAll(path, "")
			wantError(t, err, path, c.want)
		})
	}
}

func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir, "")
	wantError(t, err, dir, "a folder, not a file of text")
	if _, err := Open(filepath.Join(dir, "missing.txt"), ""); !os.IsNotExist(err) || !strings.Contains(err.Error(), "missing.txt") {
		t.Errorf("error %v, want one that names the file", err)
	}
	path := place(t, "a.txt", []byte("text"))
	_, err = Open(path, "text")
	wantError(t, err, path, `plain text has no column "text"`)
}

func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", r.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip("no /proc on this system")
	}
	w.WriteString("{\"text\": \"a\"}\n{\"text\": \"b\"}")
	w.Close()
	got, err := readAll(path, "")
	if want := []Record{{Row: 1, Text: "a"}, {Row: 2, Text: "b"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
}

// TestSharedParquet reads calibration data, if some lies beside the repository.
func TestSharedParquet(t *testing.T) {
	path := "../../shared/data/calib.parquet"
	if _, err := os.Stat(path); err != nil {
		t.Skip("../shared/data/calib.parquet is not there")
	}
	got, err := readAll(path, "")
	if err != nil {
		t.Fatal(err)
	}
	const records = 174 // as pyarrow counts them
	if len(got) != records || !strings.HasPrefix(got[0].Text, "static enum parse_opt_result parse_long_opt(\n\t") {
		t.Errorf("%d records, the first begins %.60q", len(got), got[0].Text)
	}
}
