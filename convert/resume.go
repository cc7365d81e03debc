package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// askedName is the job's file with the options of the run that worked on it
// last, all of them and with absolute paths: job.json has only what must not
// change, and of the source and the data only what identifies them.
const askedName = "asked.json"

// remember writes the options that Resume returns. Measuring in the folder of a
// conversion does not make it a job that only measures.
func (j *job) remember(o *Options) error {
	if before, err := Resume(filepath.Dir(j.dir)); err == nil && len(before.Targets) > 0 && len(o.Targets) == 0 {
		return nil
	}
	asked := *o
	asked.Restart = false
	for _, path := range []*string{&asked.Source, &asked.Work, &asked.Out, &asked.Data.File, &asked.Measurement, &asked.SaveMeasurement} {
		*path = absolute(*path)
	}
	want, err := json.MarshalIndent(asked, "", " ")
	if err != nil {
		return fmt.Errorf("job file %s: %w", j.path(askedName), err)
	}
	if have, err := os.ReadFile(j.path(askedName)); err == nil && bytes.Equal(bytes.TrimSpace(have), want) {
		return nil
	}
	return j.writeJSON(askedName, asked)
}

// Resume returns the options of the job in a folder, with which Run continues
// it, or Measure if there are no targets. fs.ErrNotExist is in the chain of the
// error if there is none.
func Resume(work string) (*Options, error) {
	path := filepath.Join(work, "job", askedName)
	data, err := os.ReadFile(path)
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
	if o.Out == o.Work { // the folder may have moved
		o.Out = ""
	}
	o.Work = work
	return &o, nil
}
