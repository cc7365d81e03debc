package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Restart deletes the job: of the files that its list has those that still are
// as it wrote them, in its folder, and elsewhere where replaces says so of the
// file's path. Of a list that is damaged it takes what can be read. What else
// is there stays.
func (j *Job) Restart(replaces func(path string) bool) error {
	if err := j.restart(replaces); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return nil
}

func (j *Job) restart(replaces func(path string) bool) error {
	var names []string
	for _, e := range j.list.all() {
		if inside(e.Name) || replaces(j.Path(e.Name)) {
			names = append(names, e.Name)
		}
	}
	// A model without its config.json does not load, so that goes first; job.json
	// goes last.
	rank := func(name string) int {
		switch {
		case !inside(name) && filepath.Base(j.Path(name)) == "config.json":
			return 0
		case name == settingsName:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range slices.Compact(names) {
		if err := j.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := j.Sweep(); err != nil {
		return err
	}
	if err := j.makeWay(settingsName); err != nil { // of a job that is not known any more
		return err
	}
	if err := j.list.clear(); err != nil {
		return err
	}
	return j.removeEmpty()
}

// removeEmpty deletes the folders in the job's that nothing is in.
func (j *Job) removeEmpty() error {
	var folders []string
	err := filepath.WalkDir(j.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != j.dir {
			folders = append(folders, path)
		}
		return err
	})
	slices.Reverse(folders)
	for _, f := range folders {
		os.Remove(f) // stays if something is in it
	}
	return err
}
