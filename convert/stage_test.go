package convert

import (
	"encoding/json"
	"testing"
)

// A stage of --profile --json has every field that scripts read, also where nothing is counted.
func TestStageFields(t *testing.T) {
	text, err := json.Marshal(Stage{Name: "quantize: pack"})
	const want = `{"stage":"quantize: pack","seconds":0,"gpu_seconds":0,"bytes":0,"flops":0,"bound_share":0}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

// A stage that does nothing has done no operations: with the least work descent is one.
func TestStagesWithoutWork(t *testing.T) {
	for _, c := range []struct {
		quality Quality
		works   bool
	}{{Fast, false}, {Normal, true}} {
		o := options(t, sourceModel(t, "llama"), "4")
		o.Quality, o.Profile = c.quality, true
		r, _ := mustRun(t, o)
		found := false
		for _, s := range r.Profile {
			if s.Name == "quantize: descent" {
				found = true
				if (s.Flops > 0) != c.works {
					t.Errorf("--quality %s: descent has %v operations", c.quality, s.Flops)
				}
			}
		}
		if !found {
			t.Errorf("--quality %s: no descent in the profile", c.quality)
		}
	}
}
