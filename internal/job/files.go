package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"exl2/internal/atomicfile"
	"exl2/internal/regular"
	"exl2/internal/safetensors"
)

// Create starts a file of the job, which Commit puts on the list and in its
// place. The folder must exist.
func (j *Job) Create(name string) (*atomicfile.File, error) {
	name = j.listed(name)
	f, err := atomicfile.Create(j.Path(name))
	if err == nil {
		f.OnComplete(func(content *os.File, durable func() error) error { return j.record(name, content, durable) })
	}
	return f, err
}

// CreateTensors is Create for a safetensors file.
func (j *Job) CreateTensors(name string, tensors []safetensors.Info) (*safetensors.Writer, error) {
	name = j.listed(name)
	w, err := safetensors.Create(j.Path(name), tensors)
	if err == nil {
		w.OnComplete(func(content *os.File, durable func() error) error { return j.record(name, content, durable) })
	}
	return w, err
}

// Write writes a file of the job; write is given where its bytes go.
func (j *Job) Write(name string, write func(w io.Writer) error) error {
	f, err := j.Create(name)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}

// WriteJSON writes a file of the job.
func (j *Job) WriteJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("job file %s: %w", j.Path(name), err)
	}
	return j.Write(name, func(w io.Writer) error { _, err := w.Write(append(data, '\n')); return err })
}

// record puts a file that is complete on the list, and what is in its place out
// of its way.
func (j *Job) record(name string, content *os.File, durable func() error) error {
	e, err := sum(io.NewSectionReader(content, 0, math.MaxInt64))
	if err != nil {
		return err
	}
	info, err := content.Stat()
	if err == nil {
		err = durable()
	}
	if err == nil {
		err = j.makeWay(name)
	}
	if err != nil {
		return err
	}
	e.Name = name
	if err := j.list.add(e); err != nil {
		return err
	}
	j.list.know(j.Path(name), info, e)
	return nil
}

// makeWay moves a file of the job's folder aside that the job did not write, and
// refuses to replace one elsewhere.
func (j *Job) makeWay(name string) error {
	free, err := j.Replaceable(name)
	if err != nil || free {
		return err
	}
	if !inside(name) {
		return j.InTheWay(name)
	}
	path := j.Path(name)
	aside := path + ".kept"
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s.kept%d", path, n)
	}
	j.Warn(fmt.Sprintf("%s is not this job's: it is kept as %s", path, filepath.Base(aside)))
	return os.Rename(path, aside)
}

// Replaceable reports whether a file may be written: none is there, or one that
// the job wrote, or Overwrite allows it. What is no file, such as a folder or a device, is
// refused.
func (j *Job) Replaceable(name string) (bool, error) {
	name = j.listed(name)
	info, err := os.Lstat(j.Path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case inside(name):
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return false, fmt.Errorf("%w: %s is %s, which no file replaces; move it away, or give another name", ErrRefused, j.Path(name), regular.Kind(info.Mode()))
	case j.Overwrite:
		return true, nil
	}
	return j.Wrote(name)
}

// InTheWay is the error about a file elsewhere that is not the job's to replace.
func (j *Job) InTheWay(name string) error {
	return fmt.Errorf("%w: %s is there and this job did not write it as it is; move it away, or --overwrite replaces it", ErrRefused, j.Path(name))
}

// Wrote reports whether a file is there as the job has written it.
func (j *Job) Wrote(name string) (bool, error) { return j.list.wrote(j.listed(name), j.Path(name)) }

// IsCopy reports whether a file is there with bytes that the job has written to another of
// its files.
func (j *Job) IsCopy(name, of string) (bool, error) {
	return j.list.wrote(j.listed(of), j.Path(name))
}

// WroteElse reports whether the job has written something else to a path than copies of one
// of its files, be it gone or changed by now.
func (j *Job) WroteElse(path, of string) bool {
	list, name := j.list.all(), j.listed(path)
	info, err := os.Lstat(path)
	copies := map[string]bool{}
	for _, e := range list {
		if e.Name == of {
			copies[e.Sum] = true
		}
	}
	return slices.ContainsFunc(list, func(e entry) bool {
		if inside(e.Name) || copies[e.Sum] {
			return false
		}
		other, otherErr := os.Lstat(j.Path(e.Name))
		return e.Name == name || err == nil && otherErr == nil && os.SameFile(info, other)
	})
}

// Has reports whether the job has a file. One that it wrote and that has other
// bytes now is an error.
func (j *Job) Has(name string) (bool, error) {
	if !j.list.has(j.listed(name)) {
		return false, nil
	}
	if _, err := os.Lstat(j.Path(name)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	wrote, err := j.Wrote(name)
	if err == nil && !wrote {
		err = errChanged
	}
	if err != nil {
		return false, j.Damaged(name, err)
	}
	return true, nil
}

// errChanged says that a file has other bytes than the job has written.
var errChanged = errors.New("it is not as this job wrote it")

// ReadJSON reads a file of the job, if it has it.
func (j *Job) ReadJSON(name string, v any) (found bool, err error) {
	if found, err = j.Has(name); !found {
		return false, err
	}
	data, err := regular.ReadOwn(j.Path(name))
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return false, j.Damaged(name, err)
	}
	return true, nil
}

// MustReadJSON reads a file that the job must have by now.
func (j *Job) MustReadJSON(name string, v any) error {
	found, err := j.ReadJSON(name, v)
	if err == nil && !found {
		err = j.missing(name)
	}
	return err
}

// OpenTensors opens a safetensors file that the job must have by now.
func (j *Job) OpenTensors(name string) (*safetensors.File, error) {
	found, err := j.Has(name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, j.missing(name)
	}
	f, err := safetensors.Open(j.Path(name))
	if err != nil {
		return nil, j.Damaged(name, err)
	}
	return f, nil
}

// missing is the error about a file that the job must have and has not. One that is
// there is not on the list: of that entries are gone, which are its end as a rule.
func (j *Job) missing(name string) error {
	if j.there(name) {
		return j.Damaged(listName, fmt.Errorf("entries are missing, that of %s among them", name))
	}
	return j.Damaged(name, fs.ErrNotExist)
}

// Damaged is the error about a file of the job that cannot be used. What says nothing of the file
// does not cost the job: a process with too many open files, a disk that does not answer.
func (j *Job) Damaged(name string, err error) error {
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, fs.ErrPermission} {
		if errors.Is(err, passing) {
			return fmt.Errorf("job file %s: %w; the same command goes on when it can be read again", j.Path(name), err)
		}
	}
	return fmt.Errorf("job file %s: %w; --restart begins again", j.Path(name), err)
}

// Remove deletes a file if it is there as the job has written it.
func (j *Job) Remove(name string) error {
	wrote, err := j.Wrote(name)
	if err != nil || !wrote {
		return err
	}
	return os.Remove(j.Path(name))
}

// Written returns the bytes of the files on the list that are there, those in
// the job's folder and those elsewhere.
func (j *Job) Written() (within, elsewhere int64) {
	seen := map[string]bool{}
	for _, e := range j.list.all() {
		info, err := os.Lstat(j.Path(e.Name))
		switch {
		case err != nil || seen[e.Name]:
		case inside(e.Name):
			within += info.Size()
		default:
			elsewhere += info.Size()
		}
		seen[e.Name] = true
	}
	return within, elsewhere
}
