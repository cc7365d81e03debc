package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"

	"exl2/internal/job"
	"exl2/internal/regular"
)

// askedName is the job's file with the options of the run that worked on it
// last, all of them and with absolute paths: job.json has only what must not
// change, and of the source and the data only what identifies them.
const askedName = "asked.json"

// remember writes the options that Resume returns. Measuring in the folder of a
// conversion does not make it a job that only measures.
func (r *run) remember() error {
	var before Options
	found, err := r.job.ReadJSON(askedName, &before)
	if err != nil {
		return err
	}
	asked := *r.opts
	if found && len(before.Targets) > 0 && len(asked.Targets) == 0 {
		return nil
	}
	asked.Device, asked.Restart, asked.Overwrite, asked.Profile, asked.LowMemory, asked.GPUMemory, asked.conditions = "", false, false, false, false, 0, nil
	for _, path := range asked.paths() {
		*path = job.Escape(absolute(*path))
	}
	if found && reflect.DeepEqual(before, asked) {
		return nil
	}
	return r.job.WriteJSON(askedName, asked)
}

// paths lists the options that are paths.
func (o *Options) paths() []*string {
	return []*string{&o.Source, &o.Work, &o.Out, &o.Data.File, &o.Measurement, &o.SaveMeasurement}
}

// Resume returns the options of the job in a folder, with which Run continues
// it, or Measure if there are no targets. fs.ErrNotExist is in the chain of the
// error if there is none.
func Resume(work string) (*Options, error) {
	path := filepath.Join(work, jobFolder, askedName)
	data, err := regular.ReadOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no job that can go on: %w", work, err)
	}
	var o Options
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("job file %s: %w; give the options of the job again", path, err)
	}
	for _, path := range o.paths() {
		*path = job.Unescape(*path)
	}
	if o.Out == o.Work { // the folder may have moved
		o.Out = ""
	}
	o.Work = work
	return &o, nil
}
