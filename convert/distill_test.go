package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/job"
)

// trained are the options of a small job that trains codes.
func trained(t testing.TB, source string, bits ...string) *Options {
	o := options(t, source, bits...)
	o.Quality = Best
	o.conditions.trained = float64(60 * cpuSchooling.batch * 64)
	return o
}

// A model whose codes are trained has the recipes of one whose codes are not, other
// codes, and says less than that that its source does not.
func TestBest(t *testing.T) {
	source := sourceModel(t, "llama")
	normal, best := options(t, source, "3.0", "4.0"), trained(t, source, "3.0", "4.0")
	before, _ := mustRun(t, normal)
	after, w := mustRun(t, best)
	for i, out := range after.Outputs {
		if old := before.Outputs[i]; out.FileBytes != old.FileBytes || out.DecoderBPW != old.DecoderBPW || out.Perplexity == old.Perplexity {
			t.Errorf("%+v, was %+v", out, old)
		}
		if contents(t, out.Path)["output.safetensors"] == contents(t, before.Outputs[i].Path)["output.safetensors"] {
			t.Errorf("%s: no code has changed", out.Path)
		}
		var report trainedReport
		j, err := job.Open(best.jobDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := j.MustReadJSON(best.Targets[i].Text+"/"+trainedName, &report); err != nil {
			t.Fatal(err)
		}
		j.Close()
		if !(report.After < report.Before) || report.Kept || report.Perplexity != out.Perplexity {
			t.Errorf("%+v", report)
		}
	}
	if len(w.warnings) > 0 {
		t.Errorf("warnings %v", w.warnings)
	}
}

// Training that is stopped anywhere, with latents in the host's memory, goes on with
// everything on the device, and ends with the same bytes.
func TestTrainingGoesOn(t *testing.T) {
	source := sourceModel(t, "llama")
	o := trained(t, source, "3.0")
	o.conditions.trained = float64(20 * cpuSchooling.batch * 64)
	want, first := mustRun(t, o)
	files := contents(t, want.Outputs[0].Path)
	for stop := 9; stop <= len(first.steps); stop += 21 {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			o := trained(t, source, "3.0")
			o.conditions.trained = float64(20 * cpuSchooling.batch * 64)
			ctx, cancel := context.WithCancel(context.Background())
			w := &watcher{}
			w.step = func() {
				if w.done++; len(w.steps) == stop {
					cancel()
				}
			}
			o.conditions.trainingRoom = 1
			_, err := runOn(ctx, on(&devtest.Carrying{Quantize: openCPU(t), Host: openCPU(t), Late: true}), o, w)
			if stop < len(first.steps) && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			o.conditions.trainingRoom = 1 << 30 // room to recall what the source says, too
			got, _ := mustRun(t, o)
			mustEqual(t, contents(t, got.Outputs[0].Path), files)
		})
	}
}

// small is a device with memory of its own, of which little is free.
type small struct {
	device.Quantize
	free int
}

func (s small) MemInfo() (free, total int)    { return s.free, s.free }
func (s small) Workspace(rows, width int) int { return 0 }
func (s small) MemPeak() int                  { return 0 }
func (s small) Close() error                  { return s.Quantize.Close() }

// A model that the device has no room to train, or to sample from, is refused before
// there is a job, if that is asked for.
func TestTrainingTakesMemory(t *testing.T) {
	o := trained(t, sourceModel(t, "llama"), "3.0")
	d := openCPU(t)
	run := func(free int) error {
		_, err := runOn(context.Background(), on(small{d, free}), o, &watcher{})
		return err
	}
	if err := run(1 << 20); !errors.Is(err, ErrRefused) {
		t.Errorf("with 1 MB: %v", err)
	}
	o.Quality, o.SyntheticRows = Normal, 3
	if err := run(1 << 18); !errors.Is(err, ErrRefused) {
		t.Errorf("sampling with 256 kB: %v", err)
	}
	if _, err := os.Stat(o.jobDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a job: %v", err)
	}
}

// Where there is less memory training keeps more of the model in the host's, and the
// files are the same.
func TestTrainingAway(t *testing.T) {
	source := sourceModel(t, "llama")
	var want map[string]string
	for _, room := range []int{0, 2_900_000, 1} {
		o := trained(t, source, "3.0")
		o.conditions.trained = float64(10 * cpuSchooling.batch * 64)
		o.conditions.trainingRoom = room
		r, err := runOn(context.Background(), on(&devtest.Carrying{Quantize: openCPU(t), Host: openCPU(t), Late: true}), o, &watcher{})
		if err != nil {
			t.Fatal(err)
		}
		files := contents(t, r.Outputs[0].Path)
		if want != nil {
			mustEqual(t, files, want)
		}
		want = files
	}
}

// Rates fall from width to width that they were found for.
func TestRates(t *testing.T) {
	last := 0.0022
	for bits := 2.0; bits < fromCodes; bits += 0.01 {
		v, codes := rate(bits, ratedSteps)
		if codes || v > last*1.000001 || v < 1e-4 {
			t.Fatalf("rate %v at %v bits, after %v", v, bits, last)
		}
		last = v
	}
	if _, codes := rate(8, ratedSteps); !codes {
		t.Error("wide codes are not where training begins")
	}
}
