package calib

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// readAll returns the records of a file.
func readAll(path, column string) ([]Record, error) {
	s, err := Open(path, column)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var all []Record
	for r, err := range s.Records() {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// wantError checks that an error is one line that names the file and says want.
func wantError(t *testing.T, err error, path, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	text := err.Error()
	if !strings.HasPrefix(text, path+": ") || !strings.Contains(text, want) || strings.Contains(text, "\n") {
		t.Errorf("error %q\nwant the path and %q", text, want)
	}
}

// TestForeignParquet reads what pyarrow wrote.
func TestForeignParquet(t *testing.T) {
	data, err := os.ReadFile("testdata/foreign/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]struct {
		Column  string
		Records [][2]any // row, and text or ids
		Error   string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata/foreign", name+".parquet")
			got, err := readAll(path, c.Column)
			if c.Error != "" {
				wantError(t, err, path, c.Error)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(c.Records) {
				t.Errorf("%d records, want %d", len(got), len(c.Records))
			}
			for i := range min(len(got), len(c.Records)) {
				if want := record(c.Records[i]); !reflect.DeepEqual(got[i], want) {
					t.Errorf("record %d is %+v\nwant %+v", i, got[i], want)
				}
			}
		})
	}
}

// record is a record as expected.json has it.
func record(pair [2]any) Record {
	r := Record{Row: int(pair[0].(float64))}
	switch value := pair[1].(type) {
	case string:
		r.Text = value
	case []any:
		for _, id := range value {
			r.IDs = append(r.IDs, int32(id.(float64)))
		}
	}
	return r
}
