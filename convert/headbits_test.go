package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/model"
	"exl2/measure"
)

// The head takes what serves the model best, and decoder and head together no more
// than with a head of six bits.
func TestHeadInsideTheBudget(t *testing.T) {
	source := sourceModel(t, "llama")
	fixed := options(t, source, "3.5", "6")
	_, _ = mustRun(t, fixed)
	auto := options(t, source, "3.5", "6")
	auto.HeadBits, auto.Measurement = AutoHead, filepath.Join(fixed.Work, "job", "measurement.json")
	report, _ := mustRun(t, auto)
	for i, out := range report.Outputs {
		six, err := os.Stat(filepath.Join(fixed.folder(fixed.Targets[i]), "output.safetensors"))
		if err != nil || out.FileBytes > six.Size() {
			t.Errorf("%v bits: %d bytes, %d with six bits for the head; %v", out.Bits, out.FileBytes, six.Size(), err)
		}
		l, files, err := model.Open(out.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		head := l.Head().Linears[0]
		m, err := l.Matrix(head)
		if err != nil {
			t.Fatal(err)
		}
		width := headWidth(t, out.Path)
		if last := m.Groups[len(m.Groups)-1]; last.Bits != width || m.BitsPerWeight(head.Out) != out.HeadBPW {
			t.Errorf("%v bits: the head has %d at least, config.json says %d; it takes %v a weight, the report says %v", out.Bits, last.Bits, width, m.BitsPerWeight(head.Out), out.HeadBPW)
		}
		if text, err := json.Marshal(out.HeadBits); err != nil || string(text) != `"auto"` {
			t.Errorf("the report says %s, %v", text, err)
		}
	}
}

// A measurement without the head leaves it six bits.
func TestHeadUnmeasured(t *testing.T) {
	source := sourceModel(t, "llama")
	o := options(t, source)
	o.SaveMeasurement = filepath.Join(t.TempDir(), "m.json")
	if _, err := measureOn(t.Context(), on(openCPU(t)), o, &watcher{}); err != nil {
		t.Fatal(err)
	}
	f, err := measure.ReadFile(o.SaveMeasurement)
	if err != nil {
		t.Fatal(err)
	}
	f.Sublayers[len(f.Sublayers)-1].Tables = nil
	path := filepath.Join(t.TempDir(), "old.json")
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(w); err != nil {
		t.Fatal(err)
	}
	w.Close()
	c := options(t, source, "4.0")
	c.HeadBits, c.Measurement = AutoHead, path
	report, _ := mustRun(t, c)
	if got := headWidth(t, report.Outputs[0].Path); got != 6 {
		t.Errorf("the head has %d bits", got)
	}
}

// headWidth is the width of the head that config.json speaks of.
func headWidth(t *testing.T, dir string) int {
	t.Helper()
	c, err := arch.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c.Object("quantization_config").Int("head_bits")
}

func TestHeadBitsText(t *testing.T) {
	for _, c := range []struct {
		text string
		want HeadBits
		ok   bool
	}{{"auto", AutoHead, true}, {"6", 6, true}, {"7", 7, false}, {"0", 0, false}, {"six", 0, false}, {"", 0, false}} {
		var b HeadBits
		err := b.UnmarshalText([]byte(c.text))
		if err == nil {
			err = b.check()
		}
		if (err == nil) != c.ok || c.ok && (b != c.want || b.String() != c.text) {
			t.Errorf("%q: %v, %v", c.text, b, err)
		}
	}
}
