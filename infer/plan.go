package infer

import (
	"fmt"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/device"
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
	Cache       int    `json:"cache"`       // keys and values
	Activations int    `json:"activations"` // of one pass, and logits
	Workspace   int    `json:"workspace"`   // what operations need at the side
	Free        int    `json:"free,omitempty"`
}

// Total is what the device must have free.
func (p Part) Total() int { return p.Weights + p.Cache + p.Activations + p.Workspace }

// share is the layers of a stage.
type share struct{ first, end int }

// shares divides layers among n devices, as evenly as can be.
func shares(layers, n int) []share {
	n = max(1, min(n, layers))
	list := make([]share, n)
	for i := range list {
		list[i] = share{i * layers / n, (i + 1) * layers / n}
	}
	return list
}

// Plan says what New will put on each of the devices.
func Plan(spec arch.Spec, files *safetensors.Set, devices []device.Device, o Options) []Part {
	o = o.defaults(devices[0])
	var parts []Part
	all := shares(spec.Layers, len(devices))
	for i, s := range all {
		d, last := devices[i], i == len(all)-1
		z := o.size(s.end-s.first, last)
		p := Part{Device: d.Name(), First: s.first, Layers: s.end - s.first, Weights: weights(spec, files, d, s, i == 0, last)}
		state := model.Bytes(spec, z, d.Activation())
		p.Cache = state - model.Bytes(spec, withoutCache(z), d.Activation())
		p.Activations = state - p.Cache
		if r, ok := d.(device.Room); ok {
			p.Workspace = r.Workspace(z.Rows, max(spec.Hidden, spec.MLP.Width, spec.Attn.Heads*spec.Attn.HeadDim))
			p.Free, _ = r.MemInfo()
		}
		parts = append(parts, p)
	}
	return parts
}

func withoutCache(z model.Size) model.Size {
	z.Sequences = 0
	return z
}

// weights adds up the tensors of a share.
func weights(spec arch.Spec, files *safetensors.Set, d device.Device, s share, first, last bool) int {
	var prefixes []string
	for i := s.first; i < s.end; i++ {
		prefixes = append(prefixes, spec.Names.Layer(i, ""))
	}
	if first || last && spec.Tied {
		prefixes = append(prefixes, spec.Names.Embed+".")
	}
	if last {
		prefixes = append(prefixes, spec.Names.Head+".", spec.Names.Final+".")
	}
	sum := 0
	for _, name := range files.Names() {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				sum += held(files, name, d)
			}
		}
	}
	if first && last && spec.Tied && d.Activation() == tensor.F16 { // loaded twice
		sum += held(files, spec.Names.Embed+".weight", d)
	}
	return sum
}

// held returns the bytes that a tensor takes on d, which narrows F32 matrices.
func held(files *safetensors.Set, name string, d device.Device) int {
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
