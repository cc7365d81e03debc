package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
)

// As where there is room for the keys and values of a run at a time, and of a head.
func TestMadeApart(t *testing.T) {
	positions, bytes := madePositions, madeBytes
	madePositions, madeBytes = 1, 1
	t.Cleanup(func() { madePositions, madeBytes = positions, bytes })
	devtest.RunSome(t, func(operation string, _ int) bool { return operation == "MixLatent" }, open)
}

func TestMadeTogether(t *testing.T) {
	for _, c := range []struct {
		name                     string
		runs, ahead, heads, each int
		wantRuns, wantHeads      int
	}{
		{"all at once", 1, 2048, 16, 256, 1, 16},
		{"short runs together", 40, 1024, 16, 256, 32, 16},
		{"a long run, as many as one has room", 2, 1 << 15, 16, 256, 1, 16},
		{"many heads, some at a time", 1, 1 << 15, 128, 256, 1, 32},
		{"a run that is longer than any other", 3, 1 << 17, 16, 512, 1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := device.LatentMixing{Mixing: device.Mixing{Attend: device.Attend{Heads: c.heads, Latent: 64}}, Beside: 64}
			m.Values.Rows = c.heads * c.each
			if runs, heads := madeTogether(c.runs, c.ahead, m); runs != c.wantRuns || heads != c.wantHeads {
				t.Errorf("%d runs and %d heads at a time, want %d and %d", runs, heads, c.wantRuns, c.wantHeads)
			}
		})
	}
}
