package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"exl2/internal/job"
)

// inputsName is the file of the job that says what calibration data and measurement were
// when it read them.
const inputsName = "inputs.json"

// mostSummed is the size up to which a file has a sum: of more, which takes a while to read,
// calibration needs a little, and its size has to do.
const mostSummed = 1 << 30

// inputs returns the files beside the source that the job reads. What a process has open
// is another file in the next one.
func (o *Options) inputs() []string {
	list := []string{absolute(o.Data.File), absolute(o.Measurement)}
	return slices.DeleteFunc(list, func(path string) bool {
		return path == "" || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")
	})
}

// checkInputs refuses calibration data and a measurement that are not what they were when
// the job read them: it has what it took from them, and would go on with that. What jobs
// of earlier versions have read nobody has noted; it is noted now.
func (r *run) checkInputs() error {
	if !r.fresh {
		if _, err := r.job.ReadJSON(inputsName, &r.inputs); err != nil {
			return err
		}
	}
	for _, path := range r.opts.inputs() {
		if err := r.checkInput(path); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) checkInput(path string) error {
	info, err := os.Stat(path)
	i := slices.IndexFunc(r.inputs, func(f recordedFile) bool { return f.Name == job.Escape(path) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // who needs it says so
	case err != nil:
		return err
	case i < 0 && !info.Mode().IsRegular():
		return nil // a pipe is not there twice
	}
	if i >= 0 && r.inputs[i].Bytes == info.Size() && r.inputs[i].Modified == info.ModTime().UnixNano() {
		return nil
	}
	now, err := recordFile(path, path, info.Size() <= mostSummed)
	switch {
	case err != nil:
		return err
	case i < 0:
		r.inputs = append(r.inputs, now)
	case now.Bytes != r.inputs[i].Bytes:
		return fmt.Errorf("%w: %s has %d bytes, and had %d when the job read it; give the file as it was, %s", ErrRefused, path, now.Bytes, r.inputs[i].Bytes, orElse)
	case now.Sum != r.inputs[i].Sum: // of two that have none: the same
		return fmt.Errorf("%w: %s is not what it was when the job read it; give the file as it was, %s", ErrRefused, path, orElse)
	default:
		r.inputs[i] = now // touched, that is all
	}
	r.inputsNew = true
	return nil
}

// noteGone tells of calibration data that is gone, of which the job has all that it needs.
func (r *run) noteGone() {
	path := r.opts.Data.File
	if !slices.Contains(r.opts.inputs(), absolute(path)) {
		return // nobody expects a pipe to be there
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		r.progress.Note(filepath.Base(path) + " is gone; the job goes on with the rows that it took from it")
	}
}

// saveInputs notes what was read.
func (r *run) saveInputs() error {
	if !r.inputsNew {
		return nil
	}
	return r.job.WriteJSON(inputsName, r.inputs)
}
