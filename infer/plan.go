package infer

import (
	"fmt"
	"slices"
	"strings"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// A Part is what one device holds of a model, in bytes.
type Part struct {
	Device      string `json:"device"`
	First       int    `json:"first_layer"`
	Layers      int    `json:"layers"`
	Weights     int    `json:"weights"`
	Cache       int    `json:"cache"`       // keys and values
	Activations int    `json:"activations"` // of one pass, and logits
	Workspace   int    `json:"workspace"`   // what operations need at the side
	Free        int    `json:"free,omitempty"`
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

// Plan says what New will put on each of the devices.
func Plan(l *model.Loader, devices []device.Device, o Options) []Part {
	o = o.defaults(devices[0])
	spec := l.Spec
	var parts []Part
	all := shares(l, len(devices))
	for i, s := range all {
		d, last := devices[i], i == len(all)-1
		if last {
			s.modules = append(s.modules, l.Head())
		}
		z, c := o.size(s.layers(), last)
		p := Part{
			Device: d.Name(), First: s.first, Layers: s.layers(), Weights: weights(s.modules, l.Files, d),
			Cache: model.CacheBytes(d, spec, c), Activations: model.Bytes(spec, z, d.Activation()),
		}
		if r, ok := d.(device.MemoryInfo); ok {
			p.Workspace = r.Workspace(z.Rows, l.Width())
			p.Free, _ = r.MemInfo()
		}
		parts = append(parts, p)
	}
	return parts
}

// weights adds up the tensors of modules.
func weights(modules []model.ModuleSpec, files model.Files, d device.Device) int {
	sizes := map[string]int{} // by the name of a linear, norm or table
	for _, name := range files.Names() {
		sizes[name[:max(0, strings.LastIndexByte(name, '.'))]] += held(files, name, d)
	}
	sum, tables := 0, map[string]bool{}
	for _, m := range modules {
		for _, l := range append(slices.Clone(m.Linears), m.Fixed...) {
			sum += sizes[l.Name]
		}
		for _, n := range m.Norms {
			sum += sizes[n.Name]
		}
		if m.Positions != "" {
			sum += sizes[m.Positions]
		}
		if m.Table != "" && !(tables[m.Table] && d.Activation() == tensor.F32) { // which is not copied
			sum += sizes[m.Table]
			tables[m.Table] = true
		}
	}
	return sum
}

// held returns the bytes that a tensor takes on d, which narrows F32 matrices.
func held(files model.Files, name string, d device.Device) int {
	info, ok := files.Info(name)
	n, err := info.Bytes()
	if !ok || err != nil {
		return 0
	}
	if info.DType == "F32" && len(info.Shape) == 2 && d.Activation() != tensor.F32 {
		n /= 2
	}
	return int(n)
}

// checkRoom refuses a plan that a device has no room for.
func checkRoom(plan []Part) error {
	for _, p := range plan {
		if p.Free > 0 && p.Total() > p.Free {
			return fmt.Errorf("out of memory: layers %d to %d take %s (weights %s, cache %s, activations and workspace %s), %s are free on %s; a smaller --length lowers the cache, more --devices share the layers",
				p.First, p.First+p.Layers-1, gigabytes(p.Total()), gigabytes(p.Weights), gigabytes(p.Cache), gigabytes(p.Activations+p.Workspace), gigabytes(p.Free), p.Device)
		}
	}
	return nil
}

func gigabytes(n int) string { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }
