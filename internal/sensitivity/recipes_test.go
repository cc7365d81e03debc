package sensitivity

import (
	"path/filepath"
	"testing"

	"exl2/internal/arch"
	"exl2/measure"
)

// roles are those of the names in ExLlamaV2's files.
var roles = map[string]arch.Role{
	"q_proj": arch.Q, "k_proj": arch.K, "v_proj": arch.V, "o_proj": arch.O,
	"gate_proj": arch.Gate, "up_proj": arch.Up, "down_proj": arch.Down,
}

// Our options are those of a file that ExLlamaV2 wrote.
func TestOptions(t *testing.T) {
	f, err := measure.ReadFile(filepath.Join("..", "..", "testdata", "golden", "exl2", "small.measurement.json"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, h := range f.Sublayers {
		for i, o := range h.Options {
			for _, r := range o.Recipes {
				if ours := optionsFor(roles[r.Name])[i].String(); ours != r.Recipe {
					t.Errorf("%s, option %d, %s: %v there, %v here", h.Key, i, r.Name, r.Recipe, ours)
				}
				compared++
			}
		}
	}
	if compared == 0 {
		t.Error("the file has no options")
	}
}
