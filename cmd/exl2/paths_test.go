package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Paths lead to where the system will find them once folders in between are made.
func TestSettled(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("far/away", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("far", "away"), "link"); err != nil {
		t.Skip(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                   "",
		"model":              "model",
		"./model/":           "./model/",
		"../model":           "../model",
		"../../a/b":          "../../a/b",
		"..model/..x":        "..model/..x",
		"missing/../model":   "model",
		"missing/..":         ".",
		"a/b/../../../model": "../model",
		"../a/../model":      "../model",
		"far/../model":       "model",
		"link/../model":      "far/model",
		"/missing/../model":  "/model",
		here + "/link/../x":  here + "/far/x",
	} {
		if got := settled(path); got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
}
