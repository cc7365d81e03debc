package infer

import (
	"fmt"
	"slices"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/machine"
	"exl2/internal/model"
)

// What KeepDecoded may be.
const (
	keepAuto = "auto"
	keepOn   = "on"
	keepOff  = "off"
)

// KeepDecoded lists what [Options].KeepDecoded may be; "" is the first.
var KeepDecoded = []string{keepAuto, keepOn, keepOff}

func (o Options) checkKeep() error {
	if o.KeepDecoded != "" && !slices.Contains(KeepDecoded, o.KeepDecoded) {
		return fmt.Errorf("keep-decoded: %q, want one of %v", o.KeepDecoded, KeepDecoded)
	}
	return nil
}

// decodedBytes returns what the weights of modules take on d that passes of so many rows decode.
func decodedBytes(l *model.Loader, modules []model.ModuleSpec, d device.Device, rows int) (bytes int) {
	k, ok := d.(device.Keeper)
	if !ok {
		return 0
	}
	for _, m := range modules {
		for _, x := range m.Linears {
			if l.Files.Has(x.Name + "." + exl2.SuffixWords) {
				bytes += k.DecodedBytes(rows, x.In, exl2.Pad(x.Out))
			}
		}
	}
	return bytes
}

// spare is memory for what nobody has planned.
const spare = 1 << 30

// keep returns how much a device keeps that has so much free beside all it needs.
func (o Options) keep(decoded, free int) int {
	switch o.KeepDecoded {
	case keepOff:
		return 0
	case keepOn:
		return max(0, min(decoded, free-spare))
	}
	if 2*decoded < free {
		return decoded
	}
	return 0
}

// keepDecoded has devices keep weights that are decoded from now on: when the first prompt is
// under way, which need not wait until free memory is known, and all but perhaps some
// workspace is taken.
func (e *Engine) keepDecoded() {
	if e.keeps {
		return
	}
	e.keeps = true
	for _, s := range e.stages {
		k, ok := s.dev.(device.Keeper)
		memory, knows := s.dev.(device.MemoryInfo)
		if !ok || !knows || s.plan.decoded == 0 {
			e.noteKept(0, s)
			continue
		}
		free, _ := memory.MemInfo()
		free -= k.Kept() + s.plan.Workspace
		n := e.Options.keep(s.plan.decoded, free)
		if n > 0 {
			k.KeepDecoded(min(n+n/keepLoss, max(n, free-spare)))
		}
		e.noteKept(n, s)
	}
}

// noteKept tells who wanted decoded weights to be kept how far that goes, if not all are.
func (e *Engine) noteKept(bytes int, s *stage) {
	if e.Options.Note == nil || e.Options.KeepDecoded != keepOn {
		return
	}
	switch all := s.plan.decoded; {
	case all == 0:
		e.Options.Note(fmt.Sprintf("keep-decoded on: prompts of this model and length decode no weights on %s", s.dev.Name()))
	case bytes < all:
		e.Options.Note(fmt.Sprintf("keep-decoded on: %s has memory for %s of %s of decoded weights", s.dev.Name(), machine.Size(bytes), machine.Size(all)))
	}
}

// keepLoss is what part of memory may be lost between shares of small matrices.
const keepLoss = 8
