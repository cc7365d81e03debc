package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"exl2/internal/atomicfile"
)

// A job is the state of a conversion on disk. Every file in it is written
// once, under another name first, and never changed: a file that exists is a
// step that is done. Only job.json and asked.json get more when a conversion
// continues what Measure has begun, and lock is empty.
//
//	lock                       locked while a process works on the job
//	job.json                   what was asked, of which source
//	asked.json                 the options of the last run
//	calib.safetensors          tokens for quantizing
//	measure/calib.safetensors  tokens for measuring
//	measure/KEY.json           a half-block measured
//	hidden.safetensors         hidden states in front of some half-block
//	measurement.json           all measured
//	BITS/plan.json             the allocation for a target
//	BITS/KEY.safetensors       a module quantized
//	BITS/KEY.json              how far its output is from the source's
//	BITS/hidden.safetensors
//	BITS/head.json             perplexities; the head is quantized
//	BITS/files.json            what is or will be written to the model's folder
//	BITS/done.json             the report on the finished model
type job struct {
	dir  string
	lock *os.File
}

// openJob starts a job, or continues one that was started with the same
// settings. No other process can have it at the same time.
func openJob(o *Options, fingerprint, device string) (*job, error) {
	j := &job{dir: filepath.Join(o.Work, "job")}
	if !j.has("job.json") {
		if err := j.mustBeEmpty(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(j.path("measure"), 0o777); err != nil {
		return nil, err
	}
	if err := j.acquire(); err != nil {
		return nil, err
	}
	if err := j.start(o, settings{measuring(o, fingerprint, device), converting(o)}); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// start makes the folder ready for a run with the given settings.
func (j *job) start(o *Options, want settings) error {
	if o.Restart {
		if err := j.clear(o); err != nil {
			return fmt.Errorf("restart: %w", err)
		}
		if err := os.MkdirAll(j.path("measure"), 0o777); err != nil {
			return err
		}
	}
	if err := j.sweep(); err != nil {
		return err
	}
	return j.settle(want)
}

// errLocked says that a file is locked by another process.
var errLocked = errors.New("locked")

// acquire takes the job's lock, which ends with the process.
func (j *job) acquire() (err error) {
	if j.lock, err = lock(j.path("lock")); errors.Is(err, errLocked) {
		return fmt.Errorf("%w: another process is working on the job in %s; wait for it, or give another --out-dir", ErrRefused, filepath.Dir(j.dir))
	}
	return err
}

// close lets other processes have the job.
func (j *job) close() { j.lock.Close() }

// sweep deletes the unfinished files that an interrupted run has left.
func (j *job) sweep() error {
	return filepath.WalkDir(j.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return atomicfile.Clean(path)
	})
}

// mustBeEmpty refuses a job folder that this program did not make.
func (j *job) mustBeEmpty() error {
	entries, err := os.ReadDir(j.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name != "measure" && name != "lock" && !atomicfile.IsTemporary(name) {
			return fmt.Errorf("%w: %s holds %s and no job.json: this program did not make it", ErrRefused, j.dir, name)
		}
	}
	return nil
}

// path returns the path of a file of the job.
func (j *job) path(parts ...string) string {
	return filepath.Join(append([]string{j.dir}, parts...)...)
}

// readJSON reads a file of the job, if it exists.
func (j *job) readJSON(name string, v any) (found bool, err error) {
	data, err := os.ReadFile(j.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return false, j.damaged(name, err)
	}
	return true, nil
}

// mustReadJSON reads a file of the job that must exist by now.
func (j *job) mustReadJSON(name string, v any) error {
	found, err := j.readJSON(name, v)
	if err == nil && !found {
		err = j.damaged(name, fs.ErrNotExist)
	}
	return err
}

// damaged is the error about a file of the job that cannot be used.
func (j *job) damaged(name string, err error) error {
	return fmt.Errorf("job file %s: %w; --restart begins again", j.path(name), err)
}

// writeJSON writes a file of the job.
func (j *job) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("job file %s: %w", name, err)
	}
	return atomicfile.Write(j.path(name), append(data, '\n'))
}

// has reports whether a file of the job exists.
func (j *job) has(name string) bool {
	_, err := os.Stat(j.path(name))
	return err == nil
}

// ours reports whether a file, given by its path in the job's folder, is one
// that a job has; what else a user may have put there is not.
func ours(path string) bool {
	folder, name := filepath.Split(path)
	if atomicfile.IsTemporary(name) {
		return true
	}
	if folder == "" {
		return slices.Contains([]string{"job.json", askedName, "calib.safetensors", "hidden.safetensors", "measurement.json"}, name)
	}
	folder = filepath.Clean(folder)
	_, err := strconv.ParseFloat(folder, 64) // a target's
	ext := filepath.Ext(name)
	return (err == nil || folder == "measure") && (ext == ".json" || ext == ".safetensors")
}

// clear deletes the job, and the model files that it wrote to the job's folder
// or where this run will write. Nothing else is touched: a finished model
// elsewhere stays.
func (j *job) clear(o *Options) error {
	if !j.has("job.json") {
		return nil
	}
	if err := j.clearOutputs(o); err != nil {
		return err
	}
	var folders []string
	err := fs.WalkDir(os.DirFS(j.dir), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			folders = append(folders, j.path(path))
		case ours(path) && path != "job.json":
			return os.Remove(j.path(path))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := os.Remove(j.path("job.json")); err != nil { // last: until then the job is known as one
		return err
	}
	slices.Reverse(folders)
	for _, f := range folders {
		os.Remove(f) // stays if something else is in it
	}
	return nil
}

// clearOutputs deletes the files of finished models that are in the way.
func (j *job) clearOutputs(o *Options) error {
	lists, err := filepath.Glob(j.path("*", "files.json"))
	if err != nil {
		return err
	}
	for _, list := range lists {
		var w written
		name, err := filepath.Rel(j.dir, list)
		if err != nil {
			return err
		}
		if _, err := j.readJSON(name, &w); err != nil {
			return err
		}
		if !o.replaces(w.Folder) {
			continue
		}
		for _, f := range w.Files {
			if filepath.Base(f) != f {
				return j.damaged(name, fmt.Errorf("%q is no file name", f))
			}
			if err := os.Remove(filepath.Join(w.Folder, f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// written says what a job writes to a model's folder.
type written struct {
	Folder string   `json:"folder"`
	Files  []string `json:"files"`
}
