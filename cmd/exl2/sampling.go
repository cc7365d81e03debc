package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"exl2/infer"
)

// readGeneration returns the tokens that end texts, and takes the settings of the
// sampler that flags have not set from the model, if that was asked for.
func (a *app) readGeneration(dir string, flags interface{ Changed(string) bool }, o *inferOptions) ([]int32, error) {
	settings, err := infer.ReadSettings(dir)
	if err != nil {
		return nil, err
	}
	if !o.sample {
		a.noteGreedy(flags, o)
		return settings.End, nil
	}
	if len(settings.Foreign) > 0 {
		a.note("generation_config.json: fields that nothing here does: " + strings.Join(settings.Foreign, ", "))
	}
	typed := o.sampler
	o.sampler = settings.Sampler
	for _, f := range []struct {
		flag     string
		to, from *float64
	}{
		{"temperature", &o.sampler.Temperature, &typed.Temperature}, {"top-p", &o.sampler.TopP, &typed.TopP},
		{"min-p", &o.sampler.MinP, &typed.MinP}, {"typical", &o.sampler.Typical, &typed.Typical},
		{"repetition-penalty", &o.sampler.Repetition, &typed.Repetition},
		{"frequency-penalty", &o.sampler.Frequency, &typed.Frequency}, {"presence-penalty", &o.sampler.Presence, &typed.Presence},
	} {
		if flags.Changed(f.flag) {
			*f.to = *f.from
		}
	}
	if flags.Changed("top-k") {
		o.sampler.TopK = typed.TopK
	}
	if err := o.sampler.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w; flags have the last word", filepath.Join(dir, "generation_config.json"), err)
	}
	a.noteGreedy(flags, o)
	return settings.End, nil
}

// noteGreedy says which flags have no effect where no temperature is given.
func (a *app) noteGreedy(flags interface{ Changed(string) bool }, o *inferOptions) {
	var idle []string
	for _, name := range []string{"top-k", "top-p", "min-p", "typical", "seed"} {
		if o.sampler.Temperature == 0 && flags.Changed(name) {
			idle = append(idle, "--"+name)
		}
	}
	if len(idle) > 0 {
		a.note(strings.Join(idle, ", ") + ": no effect without a --temperature")
	}
}
