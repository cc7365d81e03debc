package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// separate refuses folders to write to that are, contain or link to the source,
// or to where the source's links lead, and models in the job's own folder.
func (s *source) separate(o *Options) error {
	homes, err := s.homes()
	if err != nil {
		return err
	}
	folders := []struct{ flag, dir string }{{"--out-dir", o.Work}, {"--out-dir", o.jobDir()}, {"--compile-full", o.Out}}
	for _, t := range o.Targets {
		folders = append(folders, struct{ flag, dir string }{"the model's folder", o.folder(t)})
	}
	for _, f := range folders[2:] {
		if rel, err := filepath.Rel(resolved(o.jobDir()), resolved(f.dir)); f.dir != "" && err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("%w: %s: %s is in the job's own folder; give another one", ErrRefused, f.flag, f.dir)
		}
	}
	for _, f := range folders {
		info, err := os.Stat(f.dir)
		if f.dir == "" || errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Lstat(f.dir); err == nil {
				return fmt.Errorf("%w: %s: %s is a link that leads to nothing", ErrRefused, f.flag, f.dir)
			}
			continue
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%w: %s: %s is not a folder", ErrRefused, f.flag, f.dir)
		}
		for _, home := range homes {
			if same(info, home) {
				return fmt.Errorf("%w: %s: %s is the folder of the model to convert; give another one", ErrRefused, f.flag, f.dir)
			}
			if within(info, home) {
				return fmt.Errorf("%w: %s: the model to convert is in %s; give another folder", ErrRefused, f.flag, f.dir)
			}
		}
	}
	return saveApart(o.SaveMeasurement, homes)
}

// saveApart refuses a file for the measurement that would be taken for one of the source's.
func saveApart(path string, homes []string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil // a folder that is not there yet, or that nothing can be written to
	}
	for _, home := range homes {
		if same(info, home) || same(info, filepath.Join(home, templates)) {
			return fmt.Errorf("%w: --output-measurement: %s is in the folder of the model to convert; give another file", ErrRefused, path)
		}
	}
	return nil
}

// resolved returns the absolute form of a path with the links in it followed, as far as
// there is anything.
func resolved(path string) string {
	path = absolute(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

// homes returns the folders that the source's files are really in.
func (s *source) homes() ([]string, error) {
	dir, err := filepath.EvalSymlinks(absolute(s.dir))
	if err != nil {
		return nil, err
	}
	homes := []string{dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		if target, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name())); err == nil && !slices.Contains(homes, filepath.Dir(target)) {
			homes = append(homes, filepath.Dir(target))
		}
	}
	return homes, nil
}

// same reports whether a path is that of a file.
func same(file fs.FileInfo, path string) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(file, info)
}

// within reports whether a path, which is real, lies in a folder.
func within(folder fs.FileInfo, path string) bool {
	for parent := filepath.Dir(path); parent != path; path, parent = parent, filepath.Dir(parent) {
		if same(folder, parent) {
			return true
		}
	}
	return false
}
