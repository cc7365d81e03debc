package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"exl2/internal/atomicfile"
)

// checkOutputs refuses what stands where something will be written, and folders
// that cannot be written to.
func (r *run) checkOutputs() error {
	names := []string{configName}
	for _, o := range r.src.others {
		names = append(names, o.name)
	}
	folders := []string{r.opts.Work}
	for _, t := range r.unfinished() {
		if err := r.inTheWay(r.opts.folder(t), names); err != nil {
			return err
		}
		folders = append(folders, r.opts.folder(t))
	}
	if save := r.opts.SaveMeasurement; save != "" {
		if err := r.checkSave(absolute(save), names); err != nil {
			return err
		}
		folders = append(folders, filepath.Dir(save))
	}
	for _, dir := range folders {
		if err := atomicfile.TryFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

// checkSave refuses a file that the measurement is to be written to and that is
// there, or that the job has for itself or for its models.
func (r *run) checkSave(path string, names []string) error {
	if rel, err := filepath.Rel(resolved(r.opts.jobDir()), resolved(path)); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%w: --output-measurement: %s is in the job's own folder, where measurement.json is anyway; give another file", ErrRefused, path)
	}
	if r.job.WroteElse(path, measurementName) || r.opts.ofModel(path, names) {
		return fmt.Errorf("%w: --output-measurement: %s is a file of a model that this job makes; give another file", ErrRefused, path)
	}
	free, err := r.job.Replaceable(path)
	if err == nil && !free {
		err = r.job.InTheWay(path)
	}
	return err
}

// ofModel reports whether a file is one of a target's model, whose small files have
// these names.
func (o *Options) ofModel(path string, names []string) bool {
	return slices.ContainsFunc(o.Targets, func(t Target) bool {
		rel, err := filepath.Rel(absolute(o.folder(t)), path)
		return err == nil && (slices.Contains(names, filepath.ToSlash(rel)) || rel == filepath.Base(path) && loadable(rel))
	})
}

// loadable reports whether a name is of weights that loaders look for in a folder.
func loadable(name string) bool {
	return strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".bin")
}

// inTheWay refuses what stands where a target's model will: files of these names
// that the job did not write, and other weights, which loaders would take for a
// part of the model. Shards are not named yet when a job begins.
func (r *run) inTheWay(dir string, names []string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names = slices.Clone(names)
	for _, e := range entries {
		if loadable(e.Name()) && !slices.Contains(names, e.Name()) {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		path := filepath.Join(absolute(dir), name)
		if err := mustBeFolder(filepath.Dir(path), dir); err != nil {
			return err
		}
		if err := r.mustBeFree(path); err != nil {
			return err
		}
	}
	return nil
}

// mustBeFolder refuses what stands where a folder in a model's will: what is no folder, and
// a link, which may lead to another model's.
func mustBeFolder(path, model string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || path == absolute(model) || err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: %s is no folder, or a link to one, and files of the model go there; move it away", ErrRefused, path)
	}
	return err
}

// mustBeFree refuses a file that a model's is not to replace: one that the job did not
// write, or a measurement that it has saved there.
func (r *run) mustBeFree(path string) error {
	free, err := r.job.Replaceable(path)
	if err != nil {
		return err
	}
	if !free {
		return r.job.InTheWay(path)
	}
	saved, err := r.savedThere(path)
	if err == nil && saved && !r.opts.Overwrite {
		err = fmt.Errorf("%w: %s is the measurement, which this job has saved there; move it away, or --overwrite replaces it", ErrRefused, path)
	}
	return err
}

// savedThere reports whether a file of a model's folder is the measurement, which the job has
// saved there, and not a file of the source's that has the same bytes.
func (r *run) savedThere(path string) (bool, error) {
	saved, err := r.job.IsCopy(path, measurementName)
	if err != nil || !saved {
		return false, err
	}
	copied, err := r.job.IsCopy(filepath.Join(absolute(r.opts.Source), filepath.Base(path)), measurementName)
	return !copied, err
}
