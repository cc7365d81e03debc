package convert

import (
	"math"
	"testing"

	"exl2/cuda"
	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/machine"
	"exl2/internal/model"
	"exl2/internal/safetensors"
	"exl2/internal/synth"
	"exl2/internal/tensor"
)

// sized is a device that takes what a GPU takes, of which nothing is asked but that.
type sized struct {
	ownMemory
	gpu cuda.Device
}

func (d *sized) Activation() tensor.Type               { return tensor.F16 }
func (d *sized) Workspace(rows, width int) int         { return d.gpu.Workspace(rows, width) }
func (d *sized) QuantizeWorkspace(k, n, count int) int { return d.gpu.QuantizeWorkspace(k, n, count) }

// noFiles has no tensors.
type noFiles struct{}

func (noFiles) Get(string) (safetensors.Tensor, error) { panic("none") }
func (noFiles) Has(string) bool                        { return false }
func (noFiles) Info(string) (safetensors.Info, bool)   { return safetensors.Info{}, false }
func (noFiles) Names() []string                        { return nil }

// A 7B model converts in 8 GB of a GPU's memory, a 70B model in 24, at the usual
// number of rows, with what CUDA takes for itself.
func TestLowMemoryOfKnownShapes(t *testing.T) {
	const context = 700 << 20
	for _, c := range []struct {
		shape string
		most  int // bytes
	}{{"llama2-7b", 8e9}, {"llama3-8b", 12.8e9}, {"llama2-13b", 12e9}, {"llama2-70b", 24e9}, {"llama3-70b", 24e9}} {
		s, err := synth.Known(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		m, err := synth.New(s, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		d := &sized{ownMemory: ownMemory{devtest.Counting(openCPU(t)), c.most - context}}
		o := &Options{conditions: &usual, Targets: []Target{{"4.0", 4}}, Data: Data{Length: 2048, MeasureLength: 2048}, LowMemory: true}
		r := &run{opts: o, dev: d, devices: on(d), src: &source{loader: model.NewLoader(m.Spec, noFiles{})}, done: map[Target]*finished{}}
		r.tokens = tokens{quantize: make([][]int32, 100), measure: make([][]int32, 16)}
		if err := r.planMemory(); err != nil {
			t.Errorf("%s: %v", c.shape, err)
			continue
		}
		p := r.memory
		t.Logf("%s: measuring %s, quantizing %s; hidden states of measuring %s, of quantizing %s", c.shape, machine.Size(p.Measure), machine.Size(p.Quantize), machine.Size(r.measureStreams()), machine.Size(r.quantizeStreams()))
		o.LowMemory, d.free = false, 140e9
		if err := r.planMemory(); err != nil {
			t.Errorf("%s: %v", c.shape, err)
			continue
		}
		t.Logf("%s with plenty: %v", c.shape, r.memory)
	}
}

// The codes of a 7B model train in 24 GB of a GPU's memory, with most of the model in the
// host's, in 80 with some of it there, in 141 with nothing.
func TestTrainingOfKnownShapes(t *testing.T) {
	const context = 700 << 20
	for _, c := range []struct {
		shape string
		most  int  // bytes
		away  bool // something is in the host's memory
		host  int  // bytes of that, at most
	}{
		{"llama2-7b", 24e9, true, 65e9}, {"llama2-7b", 80e9, true, 13e9}, {"llama2-7b", 141e9, false, 0},
		{"llama3-8b", 40e9, true, 70e9}, {"llama2-13b", 40e9, true, 130e9}, {"tinyllama-1.1b", 24e9, false, 0},
	} {
		s, err := synth.Known(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		m, err := synth.New(s, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		d := struct {
			*sized
			device.Carrier
		}{sized: &sized{ownMemory: ownMemory{devtest.Counting(openCPU(t)), c.most - context}}}
		always := usual
		always.freeMemory = func() (int, bool) { return math.MaxInt, true }
		o := &Options{conditions: &always, Quality: Best, Targets: []Target{{"4.0", 4}}, Data: Data{Length: 1024, MeasureLength: 1024}}
		r := &run{fresh: true, opts: o, dev: d, devices: on(d), src: &source{loader: model.NewLoader(m.Spec, noFiles{})}, done: map[Target]*finished{}, memory: &memoryPlan{}}
		if err := r.planTraining(d.free, true); err != nil {
			t.Errorf("%s: %v", c.shape, err)
			continue
		}
		p := r.memory
		t.Logf("%s, %s: training %s, %+v, %s of the host's", c.shape, machine.Size(c.most), machine.Size(p.Train), p.fit, machine.Size(p.trainHost))
		if p.Away > 0 != c.away || p.trainHost > c.host {
			t.Errorf("%s, %s: %+v, %d bytes of the host's", c.shape, machine.Size(c.most), p.fit, p.trainHost)
		}
	}
}
