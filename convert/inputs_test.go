package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Calibration data and a measurement that are edited between two runs are noticed, by a job
// that goes on and by one that is finished.
func TestEditedInputs(t *testing.T) {
	touch := func(t *testing.T, path string) {
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(t *testing.T, path, old, new string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		mustWrite(t, path, strings.Replace(string(data), old, new, 1))
		touch(t, path)
	}
	remove := func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	unnoted := func(t *testing.T, o *Options) { remove(t, filepath.Join(o.jobDir(), inputsName)) }
	measured := options(t, sourceModel(t, "llama"), "4.0")
	measured.SaveMeasurement = filepath.Join(t.TempDir(), "m.json")
	if _, err := measureOn(context.Background(), on(openCPU(t)), measured, &watcher{}); err != nil {
		t.Fatal(err)
	}
	measurement, err := os.ReadFile(measured.SaveMeasurement)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit func(t *testing.T, o *Options)
		want string // "": it goes on
		note string
	}{
		"nothing":           {func(*testing.T, *Options) {}, "", ""},
		"the data's time":   {func(t *testing.T, o *Options) { touch(t, o.Data.File) }, "", ""},
		"the data's size":   {func(t *testing.T, o *Options) { edit(t, o.Data.File, "[", "[ ") }, "tokens.jsonl has ", ""},
		"the data's bytes":  {func(t *testing.T, o *Options) { edit(t, o.Data.File, "13", "31") }, "tokens.jsonl is not what it was when the job read it; give the file as it was, another --out-dir, or --restart", ""},
		"the data, gone":    {func(t *testing.T, o *Options) { remove(t, o.Data.File) }, "", "tokens.jsonl is gone"},
		"the measurement":   {func(t *testing.T, o *Options) { edit(t, o.Measurement, "0.9", "0.8") }, "m.json is not what it was", ""},
		"its size":          {func(t *testing.T, o *Options) { edit(t, o.Measurement, "{", "{ ") }, "m.json has ", ""},
		"what nobody noted": {func(t *testing.T, o *Options) { unnoted(t, o); edit(t, o.Data.File, "13", "31") }, "", ""},
		"noted then, the job of an earlier version goes on": {func(t *testing.T, o *Options) {
			unnoted(t, o)
			mustRun(t, o)
			edit(t, o.Data.File, "13", "31")
		}, "tokens.jsonl is not what it was", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, finished := range []bool{false, true} {
				o := options(t, sourceModel(t, "llama"), "4.0")
				o.Measurement = filepath.Join(t.TempDir(), "m.json")
				mustWrite(t, o.Measurement, string(measurement))
				if finished {
					mustRun(t, o)
				} else {
					stopped(t, o, 2)
				}
				c.edit(t, o)
				w := &watcher{}
				_, err := runOn(context.Background(), on(openCPU(t)), o, w)
				if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("finished %v: error %v, want %q", finished, err, c.want)
				}
				if got := strings.Join(w.notes, "\n"); !strings.Contains(got, c.note) || c.note == "" && strings.Contains(got, "gone") {
					t.Errorf("finished %v: notes %q, want %q", finished, got, c.note)
				}
				if c.want == "" {
					mustRun(t, o) // the next one as well
					continue
				}
				if o.Restart = true; strings.Contains(c.want, "tokens.jsonl is") {
					mustRun(t, o)
				}
			}
		})
	}
}

// What was measured on some data is not quantized on other data of the same name.
func TestEditedDataBehindMeasuring(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	measureOnly(t, *o, 1)
	data, err := os.ReadFile(o.Data.File)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, o.Data.File, string(data[:len(data)/2]))
	mustRefuse(t, o, "tokens.jsonl has ", "--restart")
	mustWrite(t, o.Data.File, string(data))
	mustRun(t, o)
}

// A measurement.json that the source has comes along, though it has the bytes of the job's own.
func TestMeasurementOfTheSource(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	measured := *o
	measured.Work, measured.SaveMeasurement = t.TempDir(), filepath.Join(t.TempDir(), "measurement.json")
	if _, err := measureOn(context.Background(), on(openCPU(t)), &measured, &watcher{}); err != nil {
		t.Fatal(err)
	}
	measurement, err := os.ReadFile(measured.SaveMeasurement)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(o.Source, "measurement.json"), string(measurement))
	mustRun(t, o)
	for range 2 {
		mustRun(t, o) // finished
	}
	o.Restart = true
	mustRun(t, o)
}
