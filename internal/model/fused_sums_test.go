package model_test

import (
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/synth/synthtest"
)

// Decode steps are the same whether a device adds what sublayers give together with its norm, and leaves the stream, normalized or as it is,
// for what reads it next.
func TestFusedSums(t *testing.T) {
	ids := []int32{3, 17, 40, 8}
	for _, dir := range synthtest.Write(t, synthtest.Sums, 4) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			f := &fusing{Device: devtest.CPU(t), refuses: func(device.Products) bool { return false }}
			spec := sameSteps(t, dir, f, ids)
			if least := 2 * spec.Layers * len(ids); f.read < least {
				t.Errorf("what was left was read %d times, want at least %d, twice a layer", f.read, least)
			}
			if plain := strings.HasPrefix(filepath.Base(dir), "olmo2"); plain != (f.plain > 0) {
				t.Errorf("the stream was left as it is %d times", f.plain)
			}
		})
	}
}

// Decode steps are the same whether a device activates an MLP's products that have no gate, behind attention or beside it.
func TestFusedWithoutGates(t *testing.T) {
	ids := []int32{3, 17, 40, 8}
	for name, then := range map[string]device.Then{"starcoder2_packed": device.Activate, "gptj_packed": device.Activate, "nemotron_packed": device.SelfGate} {
		t.Run(name, func(t *testing.T) {
			dir, activated := synthtest.Write(t, map[string]string{name: synthtest.Others[name]}, 4)[0], 0
			f := &fusing{Device: devtest.CPU(t), refuses: func(p device.Products) bool {
				if p.Then == then {
					activated++
				}
				return false
			}}
			if spec := sameSteps(t, dir, f, ids); activated != spec.Layers*len(ids) {
				t.Errorf("%d products were activated, want one a layer and step", activated)
			}
		})
	}
}
