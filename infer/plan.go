package infer

import (
	"fmt"
	"slices"
	"strings"

	"exl2/internal/device"
	"exl2/internal/devices"
	"exl2/internal/machine"
	"exl2/internal/model"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A Part is what one device holds of a model, in bytes.
type Part struct {
	Device      string `json:"device"`
	First       int    `json:"first_layer"`
	Layers      int    `json:"layers"`
	Weights     int    `json:"weights"`
	Cache       int    `json:"cache"`          // keys and values
	Activations int    `json:"activations"`    // of one pass, and logits
	Workspace   int    `json:"workspace"`      // of operations
	Kept        int    `json:"kept,omitempty"` // decoded weights that prompts leave, as long as nothing else wants the memory; not in Total
	Free        int    `json:"free,omitempty"`

	host    bool // in the machine's memory
	decoded int  // bytes of weights that prompts decode
}

// Total is what the device must have free.
func (p Part) Total() int { return p.Weights + p.Cache + p.Activations + p.Workspace }

// A share is the modules of a stage, without the head.
type share struct {
	modules     []model.ModuleSpec
	first, last int // layers
}

func (s share) layers() int { return s.last - s.first + 1 }

// shares divides the layers among n devices, as evenly as can be.
func shares(l *model.Loader, n int) []share {
	layers := l.Spec.Layers
	n = max(1, min(n, layers))
	list := make([]share, n)
	for i := range list {
		list[i] = share{first: i * layers / n, last: (i+1)*layers/n - 1}
	}
	list[0].modules = []model.ModuleSpec{l.Embedding()}
	for i := range list {
		for _, m := range l.Decoder() {
			if m.Layer >= list[i].first && m.Layer <= list[i].last {
				list[i].modules = append(list[i].modules, m)
			}
		}
	}
	return list
}

// Plan says what Open will put on each of the devices.
func Plan(dir string, o Options) ([]Part, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	l, files, err := model.Open(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	list, err := devices.Open(o.Devices, o.Note)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	return plan(l, list, o), nil
}

// plan is Plan of a model that is open.
func plan(l *model.Loader, list devices.List, o Options) []Part {
	return parts(l, list, o.roomy(l, list))
}

// parts is plan with the chunk that o says.
func parts(l *model.Loader, list devices.List, o Options) []Part {
	o = o.defaults(list[0])
	spec := l.Spec
	var parts []Part
	all := shares(l, len(list))
	for i, s := range all {
		d, last := list[i], i == len(all)-1
		z, c := o.size(spec, s, last)
		unpacked := decodedBytes(l, s.modules, d, z.Rows)
		if last {
			s.modules = append(s.modules, l.Head())
		}
		p := Part{
			Device: d.Name(), First: s.first, Layers: s.layers(), Weights: weights(l, s.modules, d),
			Cache: model.CacheBytes(d, spec, c), Activations: model.Bytes(spec, z, d.Activation()), host: true, decoded: unpacked,
		}
		if last {
			p.Activations += choiceBytes(o.Sequences)
		}
		if r, ok := d.(device.MemoryInfo); ok {
			p.Workspace = r.Workspace(z.Rows, l.Width())
			p.Free, _ = r.MemInfo()
			p.Kept = o.keep(unpacked, p.Free-p.Total())
			p.host = false
		}
		parts = append(parts, p)
	}
	return parts
}

// weights adds up what modules hold.
func weights(l *model.Loader, modules []model.ModuleSpec, d device.Device) int {
	sizes := map[string]int{} // by the name of a linear or table
	for _, name := range l.Files.Names() {
		if info, ok := l.Files.Info(name); ok {
			sizes[name[:max(0, strings.LastIndexByte(name, '.'))]] += held(info, d)
		}
	}
	sum, tables := 0, map[string]bool{}
	_, borrows := d.(device.Borrower)
	for _, m := range modules {
		for _, x := range m.Matrices() {
			sum += linear(l, x, d, sizes[x.Name])
		}
		for _, table := range []string{m.Positions, m.Inputs} {
			if table != "" {
				sum += sizes[table]
			}
		}
		if m.Table != "" && !(tables[m.Table] && borrows) { // a tied head is a copy, or the same bytes
			sum += sizes[m.Table]
			tables[m.Table] = true
		}
		sum += l.Beside(m)
	}
	return sum
}

// linear returns what a linear takes, whose tensors take size bytes: a matrix that
// others have packed stays so, and a head whose rows are normalized is none of the files'.
func linear(l *model.Loader, x model.LinearSpec, d device.Device, size int) int {
	if l.UnitHead(x) { // made of what the files have, as activations are
		size = x.In * x.Out * d.Activation().Size()
	}
	n := l.PackedBytes(x, d)
	if n == 0 {
		return size
	}
	if x.Biased {
		n += 4 * x.Out
	}
	return n
}

// held returns the bytes that a tensor of a linear or a table takes on d: biases
// are F32 there, F32 matrices F16 on a device that computes so, and what is none of
// them, a router's correction, is not there.
func held(t safetensors.Info, d device.Device) int {
	n, err := t.Bytes()
	_, suffix, _ := strings.Cut(t.Name[max(0, strings.LastIndexByte(t.Name, '.')):], ".")
	switch {
	case err != nil || suffix != "weight" && suffix != "bias" && !strings.HasPrefix(suffix, "q_"):
		return 0
	case suffix == "bias":
		return 4 * slices.Max(t.Shape)
	case t.DType == "F32" && len(t.Shape) == 2 && d.Activation() != tensor.F32:
		n /= 2
	}
	return int(n)
}

// checkRoom refuses a plan that a device has no room for. Where weights are
// mapped, those on the CPU stay in their files.
func checkRoom(parts []Part, mapped bool) error {
	for _, p := range parts {
		need, free, known := p.Total(), p.Free, p.Free > 0
		if p.host {
			free, known = machine.FreeMemory()
			if mapped {
				need -= p.Weights
			}
		}
		if known && need > free {
			return fmt.Errorf("out of memory: layers %d to %d take %s (weights %s, cache %s, activations and workspace %s), %s are free on %s; a shorter context lowers the cache, more --devices share the layers",
				p.First, p.First+p.Layers-1, machine.Size(need), machine.Size(p.Weights), machine.Size(p.Cache), machine.Size(p.Activations+p.Workspace), machine.Size(free), p.Device)
		}
	}
	return nil
}
