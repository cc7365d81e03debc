package distill

import (
	"fmt"
	"testing"

	"exl2/internal/device/devtest"
)

// What training will take is known before, about, and all of it is given back.
func TestMemory(t *testing.T) {
	for _, name := range []string{"llama", "qwen3", "qwen2_moe", "gpt2"} {
		for _, fit := range []Fit{{}, {Keep: true}, {Keep: true, Recall: 20}, {Lean: true}, {Lean: true, Away: 2}, {Lean: true, Away: 100}} {
			t.Run(fmt.Sprintf("%s %+v", name, fit), func(t *testing.T) {
				count, host, l := devtest.Counting(devtest.CPU(t)), devtest.Counting(devtest.CPU(t)), open(t, name)
				d := &devtest.Carrying{Quantize: count, Host: host}
				rows := randomRows(20, 16, l.Spec.Vocab)
				p := Plan{Batch: 8, Length: 16, Steps: 1, Rate: 0.01, Fit: fit, Rows: rows}
				want, away := Bytes(d, l, p)
				x, err := New(d, l, p, rounded(t, d, l, "1:3b_32g"))
				if err != nil {
					t.Fatal(err)
				}
				x.step(rows[:8], 0.01, 1)
				if got := count.Peak(); got > want+want/10 || got < want*2/3 {
					t.Errorf("%d bytes taken, %d planned", got, want)
				}
				if got := host.Peak(); got > away || got < away*4/5 { // the CPU keeps fp16 of the source
					t.Errorf("%d bytes of the host taken, %d planned", got, away)
				}
				x.Close()
				for _, c := range []*devtest.Counter{count, host} {
					if c.Bytes() != 0 || c.Faults() != nil {
						t.Errorf("%d bytes are left: %v, %v", c.Bytes(), c.Live(), c.Faults())
					}
				}
			})
		}
	}
}
