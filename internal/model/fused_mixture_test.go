package model_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/synth/synthtest"
)

// Mixtures of decode steps are the same whether a device makes them together with the norm and the router in front, or behind these; and what
// they leave for the module behind is the stream's norm.
func TestFusedMixtures(t *testing.T) {
	ids := []int32{3, 17, 40, 8}
	for _, dir := range slices.Concat(synthtest.Write(t, synthtest.Mixtures, 4), synthtest.Write(t, synthtest.ManyExperts, 4)) {
		for _, apart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s apart=%v", filepath.Base(dir), apart), func(t *testing.T) {
				f := &fusing{Device: devtest.CPU(t), refuses: func(device.Products) bool { return false }, apart: apart}
				sameSteps(t, dir, f, ids)
				name := filepath.Base(dir)
				whole := !apart && (strings.HasPrefix(name, "nemotron") || strings.HasPrefix(name, "qwen3_5")) // its width fits
				if whole != (f.whole > 0) {
					t.Errorf("the expert that all rows see was one of a row's: %v, want %v", !whole, whole)
				}
				if f.read < len(ids)*2 {
					t.Errorf("what was left was read %d times, want at least twice a token", f.read)
				}
			})
		}
	}
}
