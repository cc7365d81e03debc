package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSetIsUpToDate makes the set again from its texts, if they are there.
func TestSetIsUpToDate(t *testing.T) {
	const sources = "../../../shared/calibration"
	if _, err := os.Stat(sources); err != nil {
		t.Skip("../shared/calibration is not there")
	}
	want, err := build(sources)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../calib/builtin.parquet")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("calib/builtin.parquet is stale, %v: go run ./scripts/calibset ../shared/calibration calib/builtin.parquet", err)
	}
}

// part writes a part of a set.
func part(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestInterleave(t *testing.T) {
	folder := t.TempDir()
	part(t, folder, "a.txt", "a1\n<|doc|>\na2\n\nstill a2\n<|doc|>\na3\n")
	part(t, folder, "b.txt", "b1\n<|doc|>\nb2")
	part(t, folder, "c.txt", "c1 has one record")
	part(t, folder, "notes.md", "no part")
	output := filepath.Join(folder, "set.parquet")
	if err := run(folder, output); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := build(folder); err != nil || !bytes.Equal(first, second) {
		t.Errorf("a second run makes another file, %v", err)
	}
	var all []record
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		p, err := readPart(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p...)
	}
	var order []string
	for _, r := range interleave(all) {
		order = append(order, r.source+":"+r.text)
	}
	// The middles of the records lie at 1/14, 1/2, 13/14; 1/4, 3/4; 1/2.
	want := "a:a1|b:b1|a:a2\n\nstill a2|c:c1 has one record|b:b2|a:a3"
	if got := strings.Join(order, "|"); got != want {
		t.Errorf("order %q\nwant  %q", got, want)
	}
}

func TestPartsThatCannotBe(t *testing.T) {
	cases := []struct{ name, content, want string }{
		{"empty record", "a\n<|doc|>\n\n<|doc|>\nb", "an empty record"},
		{"empty file", "", "an empty record"},
		{"not UTF-8", "\xff", "not UTF-8"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			part(t, folder, "a.txt", c.content)
			if _, err := build(folder); err == nil || !strings.Contains(err.Error(), "a.txt: "+c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := build(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no *.txt files") {
		t.Errorf("error %v, want one that says that there are no texts", err)
	}
}
