package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"exl2/internal/atomicfile"
)

// ErrRefused is in the chain of errors about requests that are understood and
// will not be done: settings that differ from the job's, files in the way that
// it did not write.
var ErrRefused = errors.New("refused")

const (
	lockName     = "lock"
	listName     = "files.jsonl"
	settingsName = "job.json"
)

// A Job is the state of some work on disk. Names of its files are slash-separated
// paths in its folder, or absolute paths of files elsewhere; the list has those
// beside the folder as ../NAME, so that both can be moved together. Different files
// may be written and looked for at once, once there is a job.
type Job struct {
	// Overwrite allows replacing files outside of the folder that the job did
	// not write.
	Overwrite bool
	// Warn is called with what should be known and is no error.
	Warn func(text string)

	dir  string
	lock *os.File
	list list
	made []string // folders that Open has made, the innermost first
}

// Open locks the job in a folder, which is made if it is not there. A folder
// with files and without a job's list is refused, as is a second process.
func Open(dir string) (*Job, error) {
	if err := mustBeOurs(dir); err != nil {
		return nil, err
	}
	j := &Job{dir: dir, Warn: func(string) {}}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		j.made = append(j.made, d)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if err := j.acquire(); err != nil {
		return nil, err
	}
	if err := j.list.open(filepath.Join(dir, listName)); err != nil {
		j.Close()
		return nil, fmt.Errorf("job file %s: %w", filepath.Join(dir, listName), err)
	}
	return j, nil
}

// mustBeOurs refuses a folder with files in it that no job made.
func mustBeOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	foreign := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == listName, name == settingsName:
			return nil
		case name != lockName && !atomicfile.IsTemporary(name):
			foreign = name
		}
	}
	if foreign != "" {
		return fmt.Errorf("%w: %s holds %s and no job: this program did not make it", ErrRefused, dir, foreign)
	}
	return nil
}

// errLocked says that a file is locked by another process.
var errLocked = errors.New("locked")

// A process that was killed has its locks until its memory is given back, for so long at most as a rule.
const dying = 3 * time.Second

// acquire takes the lock, which ends with the process.
func (j *Job) acquire() (err error) {
	path, tried := filepath.Join(j.dir, lockName), time.Now()
	for j.lock, err = lock(path); errors.Is(err, errLocked) && time.Since(tried) < dying; j.lock, err = lock(path) {
		time.Sleep(50 * time.Millisecond)
	}
	if errors.Is(err, errLocked) {
		return fmt.Errorf("%w: another process is working on the job in %s; wait for it, or give another --out-dir", ErrRefused, filepath.Dir(j.dir))
	}
	return err
}

// Close lets other processes have the job. One that was not begun leaves
// nothing behind.
func (j *Job) Close() {
	if !j.Begun() && !j.list.exists() {
		os.Remove(filepath.Join(j.dir, lockName))
		for _, d := range j.made {
			os.Remove(d) // stays if something is in it
		}
	}
	j.list.close()
	j.lock.Close()
}

// Dir returns the job's folder.
func (j *Job) Dir() string { return j.dir }

// Path returns the path of a file.
func (j *Job) Path(name string) string {
	if name = filepath.FromSlash(name); filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(j.dir, name)
}

// listed returns the name that the list has for a file.
func (j *Job) listed(name string) string {
	path := filepath.FromSlash(name)
	dir, err := filepath.Abs(j.dir)
	if err != nil || !filepath.IsAbs(path) {
		return name
	}
	if rel, err := filepath.Rel(filepath.Dir(dir), path); err == nil && filepath.IsLocal(rel) {
		rel, _ = filepath.Rel(dir, path)
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(path)
}

// inside reports whether a name on the list is that of a file in the job's folder.
func inside(name string) bool { return filepath.IsLocal(filepath.FromSlash(name)) }

// Sweep deletes the unfinished files that an interrupted run has left in the
// folder.
func (j *Job) Sweep() error {
	return filepath.WalkDir(j.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return atomicfile.Clean(path)
	})
}

// Folder makes a folder in the job's.
func (j *Job) Folder(name string) error { return os.MkdirAll(j.Path(name), 0o777) }
