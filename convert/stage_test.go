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
