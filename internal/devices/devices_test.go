package devices

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"exl2/cuda"
)

func TestParse(t *testing.T) {
	for names, want := range map[string][]int{"": nil, "cpu": nil, "all": nil, "0": {0}, "1,0": {1, 0}, " 2, 3": {2, 3}} {
		if got, err := parse(names); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: GPUs %v, error %v, want %v", names, got, err, want)
		}
	}
	for _, names := range []string{"gpu", "0,0", "-1", "0,", "0,cpu", "CPU", "1.5"} {
		var refused *NamesError
		if _, err := Open(names, nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), names) {
			t.Errorf("%q: error %v, want one that says what a list can be", names, err)
		}
	}
}

func TestOpen(t *testing.T) {
	list, err := Open("cpu", nil)
	if err != nil || len(list) != 1 || !strings.HasPrefix(list[0].Name(), "cpu, ") {
		t.Fatalf("cpu: %v, error %v", list, err)
	}
	list.Close()
	if _, err := cuda.Count(); !errors.Is(err, cuda.ErrNoDevice) {
		t.Skip("there are GPUs")
	}
	for _, names := range []string{"", "all"} {
		var notes []string
		list, err := Open(names, func(text string) { notes = append(notes, text) })
		if err != nil || len(list) != 1 || len(notes) != 1 || !strings.HasPrefix(notes[0], "computing on the CPU: ") {
			t.Errorf("%q without a GPU: %d devices, notes %q, error %v; want the CPU and why", names, len(list), notes, err)
		}
		list.Close()
	}
	if _, err := Open("0", nil); !errors.Is(err, cuda.ErrNoDevice) {
		t.Errorf("GPU 0: error %v, want that there is none", err)
	}
}

func TestOpenQuantizer(t *testing.T) {
	d, err := OpenQuantizer("cpu", nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

// A GPU whose memory runs out suggests what helps the one who uses it: converting, there are
// neither contexts nor layers that devices share.
func TestRemedyOfQuantizers(t *testing.T) {
	d := &cuda.Device{Remedy: remedy}
	if _, err := (List{d}).quantizers(""); err != nil || d.Remedy != quantizes {
		t.Errorf("remedy %q, error %v", d.Remedy, err)
	}
}
