package convert

import (
	"fmt"
	"path/filepath"
	"strings"

	"exl2/internal/job"
)

// algorithm is the version of what makes bytes of settings: it rises with every
// change after which a job that was begun before would end with other bytes.
const algorithm = 9

// settings are what the job's results depend on; paths are absolute, as the same
// words mean another file in another folder. What is converted, which is nothing
// without targets, does not concern the measurement.
func settings(o *Options, device string) job.Settings {
	s := job.Settings{Algorithm: algorithm, First: []job.Setting{
		{Flag: "--cal-dataset", Value: absolute(o.Data.File)},
		{Flag: "--column", Value: o.Data.Column},
		{Flag: "--measurement-rows", Value: fmt.Sprint(o.Data.MeasureRows)},
		{Flag: "--measurement-length", Value: fmt.Sprint(o.Data.MeasureLength)},
		{Flag: "--rope-scale", Value: fmt.Sprint(o.RopeScale)},
		{Flag: "--rope-alpha", Value: fmt.Sprint(o.RopeAlpha)},
		{Flag: "--calibrate-all-experts", Value: fmt.Sprint(o.AllExperts)},
		{Flag: "--fold", Value: o.Fold.String()},
		{Flag: "the processor and its BLAS", Value: device},
	}}
	if len(o.Targets) == 0 {
		return s
	}
	var bits []string
	for _, t := range o.Targets {
		bits = append(bits, t.Text)
	}
	s.Rest = []job.Setting{
		{Flag: "--compile-full", Value: absolute(o.Out)},
		{Flag: "--bits", Value: strings.Join(bits, ",")},
		{Flag: "--head-bits", Value: o.HeadBits.String()},
		{Flag: "--quality", Value: o.Quality.String()},
		{Flag: "--dataset-rows", Value: fmt.Sprint(o.Data.Rows)},
		{Flag: "--synthetic-rows", Value: o.SyntheticRows.String()},
		{Flag: "--length", Value: fmt.Sprint(o.Data.Length)},
		{Flag: "--measurement", Value: absolute(o.Measurement)},
		{Flag: "--shard-size", Value: fmt.Sprint(o.ShardMB)},
	}
	return s
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
