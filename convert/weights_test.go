package convert

import (
	"context"
	"errors"
	"maps"
	"os"
	"testing"
)

// Where the source writes rows, tokens get weights, once: a job that is interrupted before
// or behind that makes the model of one that is not.
func TestWeightsContinue(t *testing.T) {
	source := sourceModel(t, "llama")
	weighted := func() *Options {
		o := options(t, source, "3.5")
		o.SyntheticRows = 6
		return o
	}
	straight := weighted()
	mustRun(t, straight)
	for _, stop := range []struct {
		stage string
		done  int
		kept  bool
	}{{"trace gradients", 3, false}, {"weigh tokens", 20, true}, {"quantize 3.5", 2, true}} {
		o := weighted()
		ctx, cancel := context.WithCancel(context.Background())
		w := &watcher{}
		w.step = func() {
			if w.stage == stop.stage && w.done == stop.done {
				cancel()
			}
		}
		if _, err := runOn(ctx, on(openCPU(t)), o, w); !errors.Is(err, context.Canceled) {
			t.Fatalf("%+v: error %v", stop, err)
		}
		file := o.jobDir() + "/" + weightsName
		before, err := os.Stat(file)
		if stop.kept != (err == nil) {
			t.Errorf("%+v: %v", stop, err)
		}
		mustRun(t, o)
		if after, err := os.Stat(file); err != nil || stop.kept && !os.SameFile(before, after) {
			t.Errorf("%+v: weights were found again; %v", stop, err)
		}
		if !maps.Equal(contents(t, o.folder(o.Targets[0])), contents(t, straight.folder(straight.Targets[0]))) {
			t.Errorf("%+v: another model", stop)
		}
	}
}
