package convert

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// A setting is something that must not change between the runs of a job.
type setting struct {
	Flag  string `json:"flag"`
	Value string `json:"value"`
}

// settings are what the job's results depend on; paths are absolute, as the same
// words mean another file in another folder. What the measurement depends on
// stands first in job.json, and alone until a conversion makes use of it.
type settings struct{ measuring, converting []setting }

func measuring(o *Options, fingerprint, device string) []setting {
	return []setting{
		{"the model given with --in-dir", fingerprint},
		{"--cal-dataset", absolute(o.Data.File)},
		{"--column", o.Data.Column},
		{"--measurement-rows", fmt.Sprint(o.Data.MeasureRows)},
		{"--measurement-length", fmt.Sprint(o.Data.MeasureLength)},
		{"--rope-scale", fmt.Sprint(o.RopeScale)},
		{"--rope-alpha", fmt.Sprint(o.RopeAlpha)},
		{"the processor and its BLAS", device},
	}
}

// converting returns no settings if nothing is to be converted.
func converting(o *Options) []setting {
	if len(o.Targets) == 0 {
		return nil
	}
	var bits []string
	for _, t := range o.Targets {
		bits = append(bits, t.Text)
	}
	return []setting{
		{"--compile-full", absolute(o.Out)},
		{"--bits", strings.Join(bits, ",")},
		{"--head-bits", fmt.Sprint(o.HeadBits)},
		{"--dataset-rows", fmt.Sprint(o.Data.Rows)},
		{"--length", fmt.Sprint(o.Data.Length)},
		{"--measurement", absolute(o.Measurement)},
		{"--shard-size", fmt.Sprint(o.ShardMB)},
	}
}

// absolute returns the absolute form of a path, or "" for none.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// settle writes the settings of a new job. Of a job that is there it refuses
// others, and adds those of a conversion to one that was only measured.
func (j *job) settle(want settings) error {
	var have []setting
	found, err := j.readJSON("job.json", &have)
	if err != nil {
		return err
	}
	n := len(want.measuring)
	if found && len(have) < n {
		return j.damaged("job.json", errors.New("settings are missing"))
	}
	if found {
		if err := j.compare(have[:n], want.measuring); err != nil {
			return err
		}
		if len(have) > n {
			return j.compare(have[n:], want.converting)
		}
	}
	return j.writeJSON("job.json", append(want.measuring, want.converting...))
}

// compare refuses settings that differ from the job's.
func (j *job) compare(have, want []setting) error {
	for i, w := range want {
		if i >= len(have) || have[i].Flag != w.Flag {
			return j.damaged("job.json", fmt.Errorf("%s is missing", w.Flag))
		}
		if have[i].Value != w.Value {
			return fmt.Errorf("%w: the job in %s was started with another value of %s: %q, not %q; give the same again, another --out-dir, or --restart to begin again",
				ErrRefused, filepath.Dir(j.dir), w.Flag, have[i].Value, w.Value)
		}
	}
	return nil
}
