package main

import (
	"fmt"

	"exl2/infer"
	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/machine"
	"exl2/internal/model"
	"exl2/internal/synth"
	"exl2/internal/tensor"
)

// maxPositions bounds what all sequences may have together: more than the
// longest context of any model.
const maxPositions = 1 << 24

// openModel loads a model for running, with a context that can be.
func openModel(dir string, devices []device.Device, o infer.Options) (*infer.Engine, error) {
	spec, err := arch.ReadSpec(dir)
	if err != nil {
		return nil, err
	}
	if err := checkContext(spec, devices[0], o); err != nil {
		return nil, err
	}
	return infer.Open(dir, devices, o)
}

// checkContext refuses a context that is absurd, or that the machine's memory
// cannot hold. Devices with memory of their own check that themselves.
func checkContext(spec arch.Spec, d device.Device, o infer.Options) error {
	sequences := max(o.Sequences, 1)
	if o.Positions > maxPositions/sequences {
		return usage("a context of %d positions times %d sequences, want at most %d in all; give a smaller --length or fewer --tokens", o.Positions, sequences, maxPositions)
	}
	if _, own := d.(device.MemoryInfo); own {
		return nil
	}
	need := model.Bytes(spec, model.Size{Rows: 1}, tensor.F32) + model.CacheBytes(d, spec, model.CacheSize{Layers: spec.Layers, Sequences: sequences, Positions: o.Positions})
	if free, ok := machine.FreeMemory(); ok && need > free {
		return fmt.Errorf("out of memory: the keys and values of %d positions take %.1f GB, %.1f GB are free; give a smaller --length or fewer --tokens",
			o.Positions*sequences, float64(need)/1e9, float64(free)/1e9)
	}
	return nil
}

// checkSynthetic refuses a random model that memory cannot hold, of which no
// file can be mapped.
func checkSynthetic(m *synth.Model, devices []device.Device, o infer.Options) error {
	need := model.Bytes(m.Spec, model.Size{Rows: 1}, devices[0].Activation()) +
		model.CacheBytes(devices[0], m.Spec, model.CacheSize{Layers: m.Spec.Layers, Sequences: max(o.Sequences, 1), Positions: o.Positions})
	for _, info := range m.Infos() {
		n, err := info.Bytes()
		if err != nil {
			return err
		}
		need += int(n)
	}
	free, known := 0, true
	for _, d := range devices {
		r, own := d.(device.MemoryInfo)
		if !own {
			free, known = machine.FreeMemory()
			break
		}
		n, _ := r.MemInfo()
		free += n
	}
	if known && need > free {
		return fmt.Errorf("out of memory: a random %s takes %.1f GB, %.1f GB are free; take fewer bits or a smaller shape", m.Shape.Name, float64(need)/1e9, float64(free)/1e9)
	}
	return nil
}
