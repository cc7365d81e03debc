package goldens

import (
	"os"
	"path/filepath"
	"testing"
)

// mkdirs makes root/kind/name for each of names.
func mkdirs(t *testing.T, root, kind string, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := os.MkdirAll(filepath.Join(root, kind, n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDirsMergesRoots(t *testing.T) {
	base := t.TempDir()
	repo := filepath.Join(base, "main")
	env := filepath.Join(base, "env")
	mkdirs(t, filepath.Join(repo, "testdata", "golden"), "kind", "b", "c")
	mkdirs(t, filepath.Join(base, "shared", "golden"), "kind", "a", "b")
	mkdirs(t, env, "kind", "c", "d")
	mkdirs(t, env, "other", "x")
	if err := os.Symlink(filepath.Join(env, "other", "x"), filepath.Join(env, "kind", "e")); err != nil {
		t.Fatal(err)
	}
	mkdirs(t, repo, "internal", "deep")
	if err := os.WriteFile(filepath.Join(repo, "go.mod"), []byte("module m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(repo, "internal", "deep"))
	t.Setenv("EXL2_GOLDEN", env)

	var got []string
	for _, dir := range Dirs(t, "kind") {
		rel, err := filepath.Rel(base, dir)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(rel))
	}
	want := []string{"shared/golden/kind/a", "shared/golden/kind/b", "env/kind/c", "env/kind/d", "env/kind/e"}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("case %d: got %s, want %s", i, got[i], want[i])
		}
	}
}

// A file where a root or a kind may be is no folder of cases.
func TestDirsBesideFiles(t *testing.T) {
	base := t.TempDir()
	repo, env := filepath.Join(base, "main"), filepath.Join(base, "env")
	mkdirs(t, filepath.Join(repo, "testdata", "golden"), "kind", "a")
	if err := os.Mkdir(env, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(base, "shared"), filepath.Join(env, "kind"), filepath.Join(repo, "go.mod")} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(repo)
	t.Setenv("EXL2_GOLDEN", env)
	if got := Dirs(t, "kind"); len(got) != 1 || filepath.Base(got[0]) != "a" {
		t.Errorf("got %v, want a", got)
	}
	t.Run("none", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("not skipped")
			}
		}()
		Dirs(t, "other")
	})
}
