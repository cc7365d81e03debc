package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"exl2/convert"
	"exl2/internal/term"
)

// idleFlags are flags of convert that measure accepts, so that one command line
// serves both, and that mean nothing there.
var idleFlags = []string{"bits", "head-bits", "measurement", "compile-full", "shard-size", "dataset-rows", "length", "quality", "synthetic-rows"}

func newMeasureCommand(a *app) *cobra.Command {
	o := &convertOptions{}
	c := &cobra.Command{
		Use:   "measure -i MODEL -o WORK [-om FILE]",
		Short: "Measure a model, the first phase of convert",
		Long: `measure finds what quantizing every part of a model costs. Measured once, a model
can be converted to any size: by exl2 convert with the same WORK, which goes on
where measure has ended, or with any WORK and -m FILE, which is the file given
with -om. Without -om the measurement is WORK/job/measurement.json only.

WORK holds the job, which goes on when the same command is given again. Flags of
convert that mean nothing here are accepted.`,
		Example: `  exl2 measure -i models/llama -o work
  exl2 convert -i models/llama -o work -cf llama-4.0bpw -b 4.0

  exl2 measure -i models/llama -o measuring -om llama.measurement.json
  exl2 convert -i models/llama -o work -cf llama-4.0bpw -b 4.0 -m llama.measurement.json`,
		Args: flagsOnly,
		RunE: func(c *cobra.Command, _ []string) error { return runMeasure(c, a, o) },
	}
	o.flags(c.Flags())
	for _, name := range idleFlags {
		c.Flags().Lookup(name).Usage = "without effect on measuring"
	}
	return c
}

// ignoreIdle puts the flags that mean nothing back to their defaults, and says so.
func ignoreIdle(c *cobra.Command, a *app) error {
	var given []string
	for _, name := range idleFlags {
		f := c.Flags().Lookup(name)
		if !f.Changed {
			continue
		}
		given = append(given, "--"+name)
		if err := f.Value.Set(f.DefValue); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	if len(given) > 0 {
		a.note("without effect on measuring: " + strings.Join(given, ", "))
	}
	return nil
}

func runMeasure(c *cobra.Command, a *app, o *convertOptions) error {
	if err := ignoreIdle(c, a); err != nil {
		return err
	}
	if err := o.prepare(c, a); err != nil {
		return err
	}
	p, err := a.follow()
	if err != nil {
		return err
	}
	return o.measure(c, a, p)
}

// measuredModel is what measure prints.
type measuredModel struct {
	Measurement string          `json:"measurement"`
	Seconds     float64         `json:"seconds"`
	Devices     []string        `json:"devices"`
	Folded      *convert.Folded `json:"folded,omitempty"`
	Memory      *convert.Memory `json:"gpu_memory,omitempty"`
	Profile     []convert.Stage `json:"profile,omitempty"`
}

// measuresOnly reports whether a conversion ends after measuring.
func (o *convertOptions) measuresOnly() bool { return o.SaveMeasurement != "" || len(o.Targets) == 0 }

// measure measures and prints where the measurement is.
func (o *convertOptions) measure(c *cobra.Command, a *app, p term.Progress) error {
	if info, err := os.Stat(o.SaveMeasurement); err == nil && info.IsDir() {
		o.SaveMeasurement = filepath.Join(o.SaveMeasurement, "measurement.json")
	}
	r, err := convert.Measure(c.Context(), &o.Options, p)
	if err != nil {
		return o.ended(a, err)
	}
	p.Close()
	if !a.json && r.Profile != nil {
		printProfile(a.err, r.Profile)
	}
	result := measuredModel{Measurement: o.SaveMeasurement, Seconds: r.Seconds.Measure, Devices: r.Devices, Folded: r.Folded, Memory: r.Memory, Profile: r.Profile}
	if result.Measurement == "" {
		result.Measurement = filepath.Join(o.Work, "job", "measurement.json")
	}
	return a.print(result, func(w io.Writer) {
		fmt.Fprintln(w, result.Measurement)
		printFolded(a.err, r.Folded)
		printGPUMemory(a.err, r.Memory)
	})
}
