package convert

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"exl2/internal/job"
	"exl2/internal/machine"
)

// ErrRefused is in the chain of errors about requests that are understood and
// cannot be met: a target out of reach, a job with other options, files in the
// way.
var ErrRefused = job.ErrRefused

// ErrUnchanged is in the chain of errors about a run that ended before it had changed
// anything of a job that was there, or begun one.
var ErrUnchanged = errors.New("nothing was changed")

// unchanged is such an error.
type unchanged struct{ error }

func (u unchanged) Unwrap() error { return u.error }

func (unchanged) Is(target error) bool { return target == ErrUnchanged }

// jobFolder is the folder of the job's files in Options.Work.
const jobFolder = "job"

// Options are what the user asks for.
type Options struct {
	Source  string // folder of the source model
	Work    string // folder of the job
	Out     string // folder of the finished model; "" means Work
	Targets []Target

	HeadBits HeadBits
	Quality  Quality
	Fold     Fold // what of the source is scaled first
	Data     Data
	Device   string // "cpu" or the number of a GPU; "" is the first GPU, or the CPU where there is none

	Measurement     string // file to use instead of measuring
	SaveMeasurement string // where to copy the measurement, too
	ShardMB         int    // largest output file; 0 means one file

	SyntheticRows SyntheticRows // that are sampled from the source and quantized on, too

	// AllExperts has every expert see all calibration tokens, not only those that
	// would see fewer than their matrices have inputs.
	AllExperts bool

	RopeScale, RopeAlpha float64 // 1 leaves the model's own positions
	Restart              bool    // delete an earlier job first
	Overwrite            bool    // replace files that the job did not write
	Profile              bool    // report where the time goes

	LowMemory bool // take as little of a GPU's memory as can be: hidden states elsewhere, few candidates at once
	GPUMemory int  // bytes of a GPU's memory that may be taken; 0 means what is free

	conditions *conditions // nil: usual
}

// conditions are what a job finds, and how it deals with that. Tests have others.
type conditions struct {
	every        time.Duration                     // between checkpoints
	inMemory     int                               // bytes of hidden states; more go to disk
	together     int                               // positions that a GPU brings through a module at a time: enough for its products, and to decode a matrix for, once
	product      int                               // the side of a product that the device's speed is measured by; 0: its own
	megabyte     int                               // the unit of the shard size
	trainingRoom int                               // bytes that training may take; 0 is what is free
	trained      float64                           // tokens that codes are trained on; 0 is as many as pay
	freeMemory   func() (int, bool)                // in bytes
	disk         func(string) (machine.Disk, bool) // that a folder is on
}

var usual = conditions{every: 3 * time.Minute, inMemory: 512 << 20, together: 8192, megabyte: 1 << 20, freeMemory: machine.FreeMemory, disk: machine.DiskOf}

// on returns the conditions of the job.
func (o *Options) on() *conditions {
	if o.conditions == nil {
		return &usual
	}
	return o.conditions
}

// A Target is a size asked for.
type Target struct {
	Text string  // as typed; names the folder if there are several
	Bits float64 // mean bits per weight of the decoder
}

// Data says what to calibrate on.
type Data struct {
	File, Column               string // "" means the built-in set, the usual column
	Rows, Length               int    // for quantizing
	MeasureRows, MeasureLength int
}

// Check reports the first option that cannot be.
func (o *Options) Check() error {
	if err := o.HeadBits.check(); err != nil {
		return err
	}
	if err := o.Quality.check(); err != nil {
		return err
	}
	if err := o.Fold.check(); err != nil {
		return err
	}
	for _, v := range []struct {
		name     string
		n, least int
	}{
		{"rows", o.Data.Rows, 1}, {"length", o.Data.Length, 2}, // a token is predicted
		{"measurement rows", o.Data.MeasureRows, 1}, {"measurement length", o.Data.MeasureLength, 2},
	} {
		if v.n < v.least || v.n > 1<<20 {
			return fmt.Errorf("%s: %d, want %d to %d", v.name, v.n, v.least, 1<<20)
		}
	}
	if o.ShardMB < 0 {
		return fmt.Errorf("shard size: %d MB, want 0 or more", o.ShardMB)
	}
	for _, t := range o.Targets {
		if !(t.Bits > 0 && t.Bits < 100) {
			return fmt.Errorf("bits: %q, want a number above 0 and below 100", t.Text)
		}
	}
	if !(o.RopeScale > 0 && o.RopeScale <= math.MaxFloat32 && o.RopeAlpha > 0 && o.RopeAlpha <= math.MaxFloat32) {
		return fmt.Errorf("rope scale and alpha: %v and %v, want positive numbers", o.RopeScale, o.RopeAlpha)
	}
	if o.Measurement != "" && o.SaveMeasurement != "" {
		return fmt.Errorf("--measurement and --output-measurement: nothing is measured with the first that the second could get")
	}
	return nil
}

// folder returns where the model of a target goes.
func (o *Options) folder(t Target) string {
	dir := o.Out
	if dir == "" {
		dir = o.Work
	}
	if len(o.Targets) > 1 {
		return filepath.Join(dir, t.Text+"bpw")
	}
	return dir
}

// jobDir returns the folder of the job's files.
func (o *Options) jobDir() string { return filepath.Join(o.Work, jobFolder) }

// replaces reports whether a file that an earlier job wrote goes when the job begins
// again: what lies in the job's own folder, or where models or the measurement will be
// written.
func (o *Options) replaces(path string) bool {
	work, path := absolute(o.Work), absolute(path)
	folder := filepath.Dir(path)
	if filepath.Base(folder) == templates {
		folder = filepath.Dir(folder)
	}
	if path == absolute(o.SaveMeasurement) || folder == work || filepath.Dir(folder) == work {
		return true
	}
	return slices.ContainsFunc(o.Targets, func(t Target) bool { return absolute(o.folder(t)) == folder })
}
