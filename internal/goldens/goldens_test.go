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
	mkdirs(t, filepath.Join(repo, "testdata", "golden"), "arch", "b", "c")
	mkdirs(t, filepath.Join(base, "shared", "golden"), "arch", "a", "b")
	mkdirs(t, env, "arch", "c", "d")
	mkdirs(t, env, "chat", "x")
	if err := os.Symlink(filepath.Join(env, "chat", "x"), filepath.Join(env, "arch", "e")); err != nil {
		t.Fatal(err)
	}
	mkdirs(t, repo, "internal", "deep")
	if err := os.WriteFile(filepath.Join(repo, "go.mod"), []byte("module m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(repo, "internal", "deep"))
	t.Setenv("EXL2_GOLDEN", filepath.Join("..", "env")) // from the repository

	var got []string
	for _, dir := range Dirs(t, "arch") {
		rel, err := filepath.Rel(base, dir)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(rel))
	}
	want := []string{"shared/golden/arch/a", "shared/golden/arch/b", "env/arch/c", "env/arch/d", "env/arch/e"}
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
	mkdirs(t, filepath.Join(repo, "testdata", "golden"), "arch", "a")
	mkdirs(t, env, "exl2", "b")
	for _, path := range []string{filepath.Join(base, "shared"), filepath.Join(env, "arch"), filepath.Join(repo, "go.mod")} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(repo)
	t.Setenv("EXL2_GOLDEN", env)
	if got := Dirs(t, "arch"); len(got) != 1 || filepath.Base(got[0]) != "a" {
		t.Errorf("got %v, want a", got)
	}
	t.Run("none", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("not skipped")
			}
		}()
		Dirs(t, "chat")
	})
}

// A folder that somebody names and no test would look into is an error, not a pass.
func TestNamedFolders(t *testing.T) {
	base := t.TempDir()
	mkdirs(t, base, "arch", "mine")
	mkdirs(t, base, "other", "mine")
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		ok        bool
	}{
		{"folders of kinds", base, true},
		{"not there", filepath.Join(base, "none"), false},
		{"a file", file, false},
		{"a kind itself", filepath.Join(base, "arch"), false},
		{"no kind that is known", filepath.Join(base, "other"), false},
	} {
		if err := checkNamed(c.dir); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
