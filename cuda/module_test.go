package cuda

import (
	"strings"
	"testing"

	"exl2/cuda/kernelfile"
)

func TestTargetFor(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		want         string
	}{
		{5, 2, ""}, {7, 0, ""}, {7, 2, ""}, {7, 5, "sm_75"}, {8, 0, "sm_80"}, {8, 6, "sm_86"}, {8, 7, "sm_86"}, {8, 9, "sm_89"}, {9, 0, "sm_90a"},
		{10, 0, "sm_100"}, {10, 3, "sm_100"}, {11, 0, "compute_80"}, {12, 0, "sm_120"}, {12, 1, "sm_120"}, {13, 0, "compute_80"},
	} {
		if got, ok := targetFor(kernelfile.Targets, c.major, c.minor); got != c.want || ok != (c.want != "") {
			t.Errorf("%d.%d: %q, want %q", c.major, c.minor, got, c.want)
		}
	}
	for target, want := range map[string]int{"sm_75": 7, "sm_89": 8, "sm_90a": 9, "sm_120": 12, "compute_80": 8} {
		if got := majorOf(target); got != want {
			t.Errorf("code for %s is for %d.x, want %d.x", target, got, want)
		}
	}
	if got, ok := targetFor([]string{"sm_90a"}, 9, 1); ok {
		t.Errorf("9.1 runs %s", got)
	}
}

// Every kernel is in the images of its source, for every target, and GPUs take all instructions.
func TestImages(t *testing.T) {
	for _, target := range kernelfile.Targets {
		checked := ""
		for _, k := range kernels {
			image, err := imageOf(k.op, target)
			if err != nil {
				t.Fatalf("%s: %v", k.op, err)
			}
			if !strings.Contains(string(image), k.name) {
				t.Errorf("%s for %s has no %s", k.op, target, k.name)
			}
			if k.op == checked {
				continue
			}
			checked = k.op
			if err := kernelfile.Check(image); err != nil {
				t.Errorf("%s for %s: %v", k.op, target, err)
			}
		}
	}
}
