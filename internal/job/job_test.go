package job

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"exl2/internal/atomicfile"
	"exl2/internal/safetensors"
)

func open(t *testing.T, dir string) *Job {
	t.Helper()
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func write(t *testing.T, j *Job, name, s string) {
	t.Helper()
	if err := j.Write(name, text(s)); err != nil {
		t.Fatal(err)
	}
}

// place puts a file where the job does not know of it.
func place(t *testing.T, path, s string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(s), 0o666); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

var (
	first = Settings{Algorithm: 3, First: []Setting{{"--rows", "5"}}}
	both  = Settings{Algorithm: 3, First: first.First, Rest: []Setting{{"--bits", "4"}}}
)

func TestOpenLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	open(t, dir).Close()
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Error("an empty job was left")
	}
	j := open(t, dir)
	write(t, j, "x", "x")
	j.Close()
	if read(t, filepath.Join(dir, "x")) != "x" {
		t.Error("a job with a file is gone")
	}
}

func TestFoldersOfOthers(t *testing.T) {
	for name, want := range map[string]bool{"notes.txt": false, "measurement.json": false, "lock": true, "files.jsonl": true, "job.json": true, "x.0123456789abcdef.exl2-partial": true} {
		dir := t.TempDir()
		place(t, filepath.Join(dir, name), "")
		j, err := Open(dir)
		if got := err == nil; got != want || !got && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: opened %v, want %v (%v)", name, got, want, err)
		}
		if err == nil {
			j.Close()
		}
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	if _, err := Open(dir); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("error %v", err)
	}
	j.Close()
	open(t, dir).Close()
}

// Who comes while a process that was killed still has the lock waits for it.
func TestDyingProcess(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	go func() {
		time.Sleep(dying / 10)
		j.Close()
	}()
	open(t, dir).Close()
}

func TestSettings(t *testing.T) {
	j := open(t, t.TempDir())
	defer j.Close()
	if j.Begun() {
		t.Error("it has begun by itself")
	}
	if err := j.Settle(first); err != nil {
		t.Fatal(err)
	}
	if err := j.Compare(both); err != nil { // continues it
		t.Error(err)
	}
	if err := j.Settle(both); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Settings{first, both} {
		if err := j.Compare(s); err != nil {
			t.Error(err)
		}
		if err := j.Settle(s); err != nil { // which does not take the rest away
			t.Error(err)
		}
	}
	for want, s := range map[string]Settings{
		`--rows: "5", not "6"`:        {Algorithm: 3, First: []Setting{{"--rows", "6"}}},
		`--bits: "4", not "5"`:        {Algorithm: 3, First: first.First, Rest: []Setting{{"--bits", "5"}}},
		"algorithm 3, this one has 4": {Algorithm: 4, First: first.First},
	} {
		if err := j.Compare(s); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A file counts as the job's as long as it has bytes that the job has written.
func TestWrote(t *testing.T) {
	work := t.TempDir()
	j := open(t, filepath.Join(work, "job"))
	defer j.Close()
	beside, elsewhere := filepath.Join(work, "beside"), filepath.Join(t.TempDir(), "elsewhere")
	for _, name := range []string{"x", beside, elsewhere} {
		path := j.Path(name)
		write(t, j, name, "one")
		write(t, j, name, "two")
		for content, want := range map[string]bool{"one": true, "two": true, "six": false, "": false, "twotwo": false} {
			place(t, path, content)
			if got, err := j.Wrote(name); got != want || err != nil {
				t.Errorf("%s with %q: %v, %v, want %v", name, content, got, err, want)
			}
		}
		place(t, path, "six")
		if found, err := j.Has(name); found || !errors.Is(err, errChanged) {
			t.Errorf("%s: %v, %v, want that it has changed", name, found, err)
		}
		if err := j.Remove(name); err != nil || read(t, path) != "six" {
			t.Error("another's file was removed")
		}
		os.Remove(path)
		if found, err := j.Has(name); found || err != nil {
			t.Errorf("%s: %v, %v, want nothing", name, found, err)
		}
		write(t, j, name, "three")
		if err := j.Remove(name); err != nil || read(t, path) != "" {
			t.Errorf("%s was not removed: %v", name, err)
		}
		if err := os.Symlink("nowhere", path); err != nil {
			t.Fatal(err)
		}
		if got, err := j.Wrote(name); got || err != nil {
			t.Errorf("a link: %v, %v", got, err)
		}
		os.Remove(path)
	}
	list := read(t, filepath.Join(work, "job", listName))
	if strings.Count(list, `"../beside"`) != 3 || strings.Contains(list, work) {
		t.Errorf("files beside the folder do not move with it:\n%s", list)
	}
}

// What the job did not write is moved aside in its folder, and refused elsewhere.
func TestOthersFiles(t *testing.T) {
	work := t.TempDir()
	j := open(t, filepath.Join(work, "job"))
	defer j.Close()
	var warnings []string
	j.Warn = func(text string) { warnings = append(warnings, text) }
	for i, want := range []string{"x.kept", "x.kept2", "x.kept3"} {
		place(t, j.Path("x"), "mine")
		write(t, j, "x", "the job's")
		if read(t, j.Path("x")) != "the job's" || read(t, j.Path(want)) != "mine" || len(warnings) != i+1 {
			t.Errorf("%s is %q, warnings %q", want, read(t, j.Path(want)), warnings)
		}
	}
	path := filepath.Join(work, "y")
	place(t, path, "mine")
	if err := j.Write(path, text("the job's")); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), path) || read(t, path) != "mine" {
		t.Errorf("error %v, and the file is %q", err, read(t, path))
	}
	j.Overwrite = true
	write(t, j, path, "the job's")
	j.Overwrite = false
	write(t, j, path, "the job's again")
	if names, _ := os.ReadDir(work); len(names) != 2 {
		t.Errorf("%d files, want the job and one", len(names))
	}
}

// A list that was cut anywhere by a crash loses at most the entry that was being
// written, whose file has no name yet.
func TestListCutAnywhere(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	write(t, j, "a", "a")
	whole := len(read(t, j.Path(listName)))
	write(t, j, "b", "b")
	j.Close()
	list := read(t, filepath.Join(dir, listName))
	for cut := whole; cut <= len(list); cut++ {
		place(t, filepath.Join(dir, listName), list[:cut])
		j := open(t, dir)
		a, err1 := j.Has("a")
		b, err2 := j.Has("b")
		if !a || b != (cut == len(list)) || err1 != nil || err2 != nil || j.list.damage != nil {
			t.Fatalf("cut at %d: %v and %v, %v, %v, %v", cut, a, b, err1, err2, j.list.damage)
		}
		write(t, j, "c", "c")
		j.Close()
		j = open(t, dir)
		if c, err := j.Has("c"); !c || err != nil || j.list.damage != nil {
			t.Fatalf("cut at %d: %v, %v, %v", cut, c, err, j.list.damage)
		}
		j.Close()
		if err := os.Remove(filepath.Join(dir, "c")); err != nil {
			t.Fatal(err)
		}
	}
}

// Before a file has its name it is on the list.
func TestListComesFirst(t *testing.T) {
	j := open(t, t.TempDir())
	defer j.Close()
	defer func() { atomicfile.BeforeRename = nil }()
	var seen []string
	atomicfile.BeforeRename = func(path string) {
		seen = append(seen, filepath.Base(path))
		if filepath.Base(path) != listName && !strings.Contains(read(t, j.Path(listName)), `"`+filepath.Base(path)+`"`) {
			t.Errorf("%s is not on the list", path)
		}
	}
	write(t, j, "x", "x")
	w, err := j.CreateTensors("t.safetensors", []safetensors.Info{{Name: "a", DType: "U8", Shape: []int{3}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write("a", []byte("abc")), w.Commit()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, []string{listName, "x", "t.safetensors"}) {
		t.Errorf("written: %q", seen)
	}
}

// Restart deletes what the job wrote and what still is so, where it may, and
// nothing else.
func TestRestart(t *testing.T) {
	work, other := t.TempDir(), t.TempDir()
	j := open(t, filepath.Join(work, "job"))
	if err := errors.Join(j.Settle(both), j.Folder("sub"), j.Folder("empty")); err != nil {
		t.Fatal(err)
	}
	ours := []string{"sub/a", "b", filepath.Join(work, "config.json"), filepath.Join(work, "c")}
	stays := []string{filepath.Join(other, "finished"), "sub/changed", "mine", filepath.Join(work, "mine")}
	for _, name := range append(ours, stays[:2]...) {
		write(t, j, name, "the job's")
	}
	for _, name := range stays[1:] {
		place(t, j.Path(name), "mine")
	}
	replaces := func(path string) bool { return filepath.Dir(path) == work }
	if err := j.Restart(replaces); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(ours, settingsName, "empty") {
		if _, err := os.Lstat(j.Path(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range stays {
		if read(t, j.Path(name)) == "" {
			t.Errorf("%s is gone", name)
		}
	}
	if found, err := j.Has("sub/changed"); found || err != nil || j.Begun() {
		t.Errorf("after it: %v, %v, begun %v", found, err, j.Begun())
	}
	if err := j.Settle(both); err != nil {
		t.Error(err)
	}
	j.Close()
	j = open(t, filepath.Join(work, "job"))
	defer j.Close()
	if err := j.Compare(both); err != nil {
		t.Error(err)
	}
}

// A damaged list stops a job, and restarting deletes what it still names.
func TestDamagedList(t *testing.T) {
	for name, damage := range map[string]func(list string) string{
		"a line of garbage": func(list string) string { return strings.Replace(list, "\n", "\ngarbage\n", 1) },
		"zeros":             func(list string) string { return strings.Repeat("\x00", 100) + "\n" + list },
		"nothing left":      func(string) string { return "" },
		"no names":          func(list string) string { return strings.ReplaceAll(list, `"name"`, `"nome"`) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, dir)
			if err := j.Settle(both); err != nil {
				t.Fatal(err)
			}
			write(t, j, "x", "the job's")
			j.Close()
			path := filepath.Join(dir, listName)
			place(t, path, damage(read(t, path)))
			j = open(t, dir)
			defer j.Close()
			if err := j.Compare(both); err == nil || !strings.Contains(err.Error(), listName) || !strings.Contains(err.Error(), "--restart begins again") {
				t.Errorf("error %v", err)
			}
			known := strings.Contains(read(t, path), `"name":"x"`)
			if err := j.Restart(func(string) bool { return true }); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(j.Settle(both), j.Compare(both)); err != nil {
				t.Error(err)
			}
			write(t, j, "x", "again")
			if kept := read(t, j.Path("x.kept")) != ""; kept == known {
				t.Errorf("a file that the list names (%v) is kept: %v", known, kept)
			}
		})
	}
}

// What a job must have and is there is the list's to lack, and what is not there is missed.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	write(t, j, "x.safetensors", "{}")
	j.Close()
	place(t, filepath.Join(dir, listName), "")
	j = open(t, dir)
	defer j.Close()
	for name, want := range map[string]string{"x.safetensors": listName + ": entries are missing, that of x.safetensors among them; --restart", "y.safetensors": "y.safetensors: file does not exist; --restart"} {
		var v any
		_, err := j.OpenTensors(name)
		for _, err := range []error{err, j.MustReadJSON(name, &v)} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
}

// What says nothing of a file, such as too many open files, is no reason to begin again.
func TestPassingErrors(t *testing.T) {
	j := open(t, t.TempDir())
	defer j.Close()
	for err, again := range map[error]bool{
		syscall.EMFILE: false, syscall.EIO: false, fs.ErrPermission: false, &fs.PathError{Op: "open", Path: "a", Err: syscall.EACCES}: false,
		fs.ErrNotExist: true, io.ErrUnexpectedEOF: true, syscall.ENOTDIR: true,
	} {
		got := j.Damaged("a.json", err)
		if !errors.Is(got, err) || strings.Contains(got.Error(), "; --restart begins again") != again || strings.Contains(got.Error(), "; the same command goes on") == again {
			t.Errorf("%v: begins again: want %v", got, again)
		}
	}
}

// Names of any bytes come back from the texts that JSON holds for them.
func TestEscape(t *testing.T) {
	for name, want := range map[string]string{
		"a/b c%41": "a/b c%41", "é\ufffd": "é\ufffd", "": "", "a\xff%\xc3é": "not UTF-8: a%FF%25%C3é", "not UTF-8: a": "not UTF-8: not UTF-8: a",
	} {
		if got := Escape(name); got != want || Unescape(got) != name {
			t.Errorf("%q: %q, and back %q; want %q", name, got, Unescape(got), want)
		}
	}
	if got := Unescape("not UTF-8: %ZZ"); got != "not UTF-8: %ZZ" {
		t.Errorf("%q", got)
	}
}

// A job without its settings is not taken for a new one: its files depend on them.
// One that was stopped before it had any is.
func TestSettingsGone(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	write(t, j, "source.json", "{}")
	if err := j.Settle(both); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(j.Path(settingsName)); err != nil {
		t.Fatal(err)
	}
	write(t, j, "source.json", "{}") // as a run does that goes on from there
	if j.Begun() {
		t.Error("nothing depends on settings, and the job has begun")
	}
	if err := j.Settle(both); err != nil {
		t.Fatal(err)
	}
	write(t, j, "x", "x")
	if err := os.Remove(j.Path(settingsName)); err != nil {
		t.Fatal(err)
	}
	if err := j.Compare(both); !j.Begun() || err == nil || !strings.Contains(err.Error(), "--restart begins again") {
		t.Errorf("begun %v, %v", j.Begun(), err)
	}
	if err := j.Restart(func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if err := j.Settle(both); err != nil {
		t.Error(err)
	}
	j.Close()
}

// A list that says that the job wrote files of the user's does not delete them:
// their sums would have to be known.
func TestHostileList(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	place(t, victim, "mine")
	place(t, filepath.Join(dir, listName), `{"name":"`+filepath.ToSlash(victim)+`","bytes":4,"xxh3":"00000000000000000000000000000000"}`+"\n"+
		`{"name":"../../../../../../../../etc/hostname","bytes":1,"xxh3":"0"}`+"\n")
	j := open(t, dir)
	defer j.Close()
	if err := j.Restart(func(string) bool { return true }); err != nil || read(t, victim) != "mine" {
		t.Errorf("error %v, the file is %q", err, read(t, victim))
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte(`{"name":"x","bytes":1,"xxh3":"0"}` + "\n"))
	f.Add([]byte("\n\n{}\n[]\nnull\n{\"name\":1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		place(t, filepath.Join(dir, listName), string(data))
		j := open(t, dir)
		defer j.Close()
		if err := j.Write("y", text("y")); err != nil {
			t.Fatal(err)
		}
		if found, err := j.Has("y"); !found || err != nil {
			t.Fatalf("%v, %v", found, err)
		}
	})
}

// What the job has written elsewhere is a copy of one of its files, or something else.
func TestCopies(t *testing.T) {
	work := t.TempDir()
	j := open(t, filepath.Join(work, "job"))
	defer j.Close()
	path := func(name string) string { return filepath.Join(work, name) }
	write(t, j, "m", "measured")
	for _, name := range []string{"copy", "edited"} {
		write(t, j, path(name), "measured")
	}
	for _, name := range []string{"model", "replaced", "gone"} {
		write(t, j, path(name), "weights")
	}
	write(t, j, path("replaced"), "measured")
	place(t, path("edited"), "mine")
	place(t, path("mine"), "mine")
	os.Remove(path("gone"))
	if err := os.Symlink(work, path("link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		isCopy, other bool
	}{
		{"copy", true, false}, {"edited", false, false}, {"mine", false, false}, {"missing", false, false},
		{"model", false, true}, {"link/model", false, true}, {"replaced", true, true}, {"gone", false, true},
	} {
		isCopy, err := j.IsCopy(path(c.name), "m")
		if wrote := j.WroteElse(path(c.name), "m"); isCopy != c.isCopy || wrote != c.other || err != nil {
			t.Errorf("%s: a copy %v, something else %v, %v", c.name, isCopy, wrote, err)
		}
	}
}
