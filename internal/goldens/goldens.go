// Package goldens finds the golden cases that tests compare with.
//
// A root is a folder that holds a folder a kind ("tokenizer", "arch", "quantized", "exl2", "chat"),
// which holds a folder a case. There are three roots: testdata/golden of the
// repository, one beside the repository, and the folder that the environment
// variable EXL2_GOLDEN names, by a path from the repository or a whole one. The first
// two may be missing.
package goldens

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Dirs returns the case folders of a kind from all roots, sorted by name. Of
// cases with one name the earlier root's is skipped: the repository holds
// trimmed copies of what the others hold in full. Without any case it skips
// the test.
func Dirs(t testing.TB, kind string) []string {
	t.Helper()
	found := map[string]string{}
	for _, root := range roots(t) {
		folder := filepath.Join(root, kind)
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			continue
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			dir := filepath.Join(root, kind, e.Name())
			if info, err := os.Stat(dir); err == nil && info.IsDir() { // links count
				found[e.Name()] = dir
			}
		}
	}
	if len(found) == 0 {
		t.Skipf("goldens: no %s cases under %s", kind, strings.Join(roots(t), ", "))
	}
	var dirs []string
	for _, dir := range found {
		dirs = append(dirs, dir)
	}
	slices.SortFunc(dirs, func(a, b string) int {
		return strings.Compare(filepath.Base(a), filepath.Base(b))
	})
	return dirs
}

// Name returns what the test of a case is called: its path below its root, as
// "arch/mistral".
func Name(dir string) string {
	return filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
}

// roots returns the root folders in rising precedence.
func roots(t testing.TB) []string {
	t.Helper()
	repo := Repository(t)
	list := []string{
		filepath.Join(repo, "testdata", "golden"),
		filepath.Join(repo, "..", "shared", "golden"),
	}
	if dir := os.Getenv("EXL2_GOLDEN"); dir != "" {
		if !filepath.IsAbs(dir) { // tests run in the folders of their packages
			dir = filepath.Join(repo, dir)
		}
		if err := checkNamed(dir); err != nil {
			t.Fatalf("EXL2_GOLDEN: %v", err)
		}
		list = append(list, dir)
	}
	return list
}

// kinds are those that some test asks for.
var kinds = []string{"arch", "quantized", "exl2", "tokenizer", "chat"}

// checkNamed refuses a folder that a user has named and that no test would find a case in.
func checkNamed(dir string) error {
	if _, err := os.ReadDir(dir); err != nil {
		return err
	}
	for _, kind := range kinds {
		if info, err := os.Stat(filepath.Join(dir, kind)); err == nil && info.IsDir() {
			return nil
		}
	}
	return fmt.Errorf("%s: none of the folders %s in it", dir, strings.Join(kinds, ", "))
}

// Repository returns the repository's root: the nearest folder at or above
// the test's own that has a go.mod.
func Repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("goldens: no go.mod above the test's folder")
		}
		dir = up
	}
}
