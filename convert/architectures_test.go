package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"exl2/internal/device"
	"exl2/internal/goldens"
	"exl2/internal/model"
	"exl2/internal/tensor"
	"exl2/measure"
)

// Every architecture is converted and read again: the logits of the result are
// those of the source with its matrices replaced by the decoded ones.
func TestArchitectures(t *testing.T) {
	for _, dir := range append(goldens.Dirs(t, "arch"), goldens.Dirs(t, "quantized")...) {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			t.Parallel()
			source := t.TempDir()
			for _, f := range []string{"config.json", "model.safetensors"} {
				copyFile(t, filepath.Join(source, f), filepath.Join(dir, f))
			}
			o := options(t, source, "4.5")
			o.Data.Rows, o.Data.Length, o.Data.MeasureRows, o.Data.MeasureLength = 3, 40, 2, 40
			o.Out = filepath.Join(t.TempDir(), "out")
			mustRun(t, o)
			compareDecoded(t, source, o.Out)
		})
	}
}

// A conversion of experts, and one of a parallel block, survives interruptions and
// goes on from measurements that hold ExLlamaV2's part only.
func TestUnusualBlocks(t *testing.T) {
	for _, name := range []string{"qwen2_moe", "cohere", "cohere2_moe"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := sourceModel(t, name)
			small := func(bits string) *Options {
				o := options(t, source, bits)
				o.Data.Rows, o.Data.MeasureRows = 4, 2
				return o
			}
			whole := small("4.0")
			whole.SaveMeasurement = filepath.Join(t.TempDir(), "measurement.json")
			report, w := mustRun(t, whole)
			if name != "cohere" {
				checkCoverage(t, report)
			}
			parts := small("4.0")
			for stop := 2; stop < len(w.steps); stop += 3 { // in the middle of each phase
				ctx, cancel := context.WithCancel(context.Background())
				steps := 0
				_, err := runOn(ctx, on(openCPU(t)), parts, &watcher{step: func() {
					if steps++; steps == stop {
						cancel()
					}
				}})
				cancel()
				if err == nil {
					break
				}
			}
			mustRun(t, parts)
			mustEqual(t, contents(t, parts.Work), contents(t, whole.Work))

			theirs := small("5.0")
			theirs.Measurement = withoutTables(t, whole.SaveMeasurement)
			report, _ = mustRun(t, theirs)
			if bpw := report.Outputs[0].DecoderBPW; bpw > 5 || bpw < 4 {
				t.Errorf("%v bits per weight, want at most 5", bpw)
			}
		})
	}
}

// checkCoverage: every token sees as many experts as it should.
func checkCoverage(t *testing.T, r *Report) {
	t.Helper()
	if len(r.Experts) == 0 {
		t.Fatal("no report on experts")
	}
	for _, c := range r.Experts {
		if c.Experts == 0 || c.Least > c.Median || c.Median > c.Most || c.Most > r.Rows*r.Length || c.Least == 0 && c.OnAll == 0 {
			t.Errorf("coverage %+v of %d tokens", c, r.Rows*r.Length)
		}
	}
}

// withoutTables writes a measurement without what ExLlamaV2's do not have.
func withoutTables(t *testing.T, path string) string {
	t.Helper()
	f, err := measure.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Sublayers {
		f.Sublayers[i].Tables, f.Sublayers[i].Coverage = nil, nil
	}
	var text bytes.Buffer
	if err := f.Write(&text); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(t.TempDir(), "theirs.json")
	if err := os.WriteFile(theirs, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return theirs
}

// compareDecoded compares the logits of a converted model with those of its source
// with the decoded matrices.
func compareDecoded(t *testing.T, source, converted string) {
	t.Helper()
	d := openCPU(t)
	packed, modules := loadAll(t, d, converted)
	_, dense := loadAll(t, d, source)
	before := modelLogits(t, d, packed, dense)
	for _, m := range dense {
		for _, l := range m.AllLinears() {
			if !l.Packable() {
				continue
			}
			matrix, err := packed.Matrix(l.LinearSpec)
			if err != nil || matrix == nil {
				t.Fatalf("%s is not quantized (%v)", l.Name, err)
			}
			q := d.LoadEXL2(matrix, l.Out)
			w := d.Alloc(tensor.F16, l.Out, l.In)
			d.Decode(w, q)
			l.Replace(d, model.Dense{Tensor: w})
		}
	}
	got, want := modelLogits(t, d, packed, modules), modelLogits(t, d, packed, dense)
	worst, scale, moved := 0.0, 0.0, 0.0
	for i := range want {
		worst = max(worst, math.Abs(float64(got[i]-want[i])))
		scale = max(scale, math.Abs(float64(want[i])))
		moved = max(moved, math.Abs(float64(want[i]-before[i])))
	}
	if !(worst <= 1e-4*max(scale, 1)) {
		t.Errorf("logits differ by %.2g from those of the decoded matrices, which are up to %.2g", worst, scale)
	}
	if moved == 0 {
		t.Error("quantizing has changed nothing")
	}
}

func loadAll(t *testing.T, d device.Device, dir string) (*model.Loader, []*model.Module) {
	t.Helper()
	l, files, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	l.Spec.SetContext(40)
	modules, err := l.LoadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	return l, modules
}

// modelLogits runs 40 tokens through modules.
func modelLogits(t *testing.T, d device.Device, l *model.Loader, modules []*model.Module) []float32 {
	t.Helper()
	const length = 40
	c := model.NewCache(d, l.Spec, model.WholeCache(l.Spec, 1, length))
	s := model.NewState(d, l.Spec, model.Size{Rows: length, Logits: length}, c)
	ids := make([]int32, length)
	for i := range ids {
		ids[i] = int32(i*i*31+7*i) % 128
	}
	s.Use([]model.Run{{}}, length, ids)
	for _, m := range modules {
		m.Forward(s)
	}
	logits := s.At(model.Logits)
	data := make([]byte, logits.Bytes())
	d.Download(data, logits)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}
