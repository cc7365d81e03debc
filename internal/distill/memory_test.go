package distill

import (
	"fmt"
	"testing"

	"exl2/internal/device/devtest"
)

// What training will take is known before, about, and all of it is given back.
func TestMemory(t *testing.T) {
	for _, name := range []string{"llama", "qwen3", "qwen2_moe", "gpt2"} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s keep=%v", name, keep), func(t *testing.T) {
				d, l := devtest.Counting(devtest.CPU(t)), open(t, name)
				p := Plan{Batch: 8, Length: 16, Steps: 1, Rate: 0.01, Keep: keep}
				want := Bytes(d, l, p)
				x, err := New(d, l, p, rounded(t, d, l, "1:3b_32g"))
				if err != nil {
					t.Fatal(err)
				}
				x.step(randomRows(8, 16, l.Spec.Vocab), 0.01, 1)
				if got := d.Peak(); got > want+want/10 || got < want*2/3 {
					t.Errorf("%d bytes taken, %d planned", got, want)
				}
				x.Close()
				if d.Bytes() != 0 || d.Faults() != nil {
					t.Errorf("%d bytes are left: %v, %v", d.Bytes(), d.Live(), d.Faults())
				}
			})
		}
	}
}
