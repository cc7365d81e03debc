package cuda

import (
	"testing"

	"exl2/internal/device"
)

// Runs are divided as multiprocessors have room: heads that share keys are together where rows are few, and keys are divided where
// blocks would be, and are long.
func TestRunsShape(t *testing.T) {
	const sms, keys = 132, 128
	for _, c := range []struct {
		name                                    string
		heads, kvHeads, runs, behind, span      int
		window                                  int
		together, items, longest, middle, parts int
	}{
		{"a long prompt", 32, 8, 1, 0, 2048, 0, 1, 512, 16, 8, 1},
		{"as many blocks as multiprocessors", 32, 8, 1, 8192, 512, 0, 1, 128, 68, 66, 1},
		{"a message behind little", 32, 8, 1, 60, 60, 0, 2, 16, 1, 1, 1},
		{"a message behind a long text", 32, 8, 1, 8192, 16, 0, 4, 8, 65, 65, 16},
		{"heads with keys of their own", 32, 32, 1, 8192, 16, 0, 1, 32, 65, 65, 4},
		{"no divisor of the heads has room but one", 28, 4, 1, 8192, 32, 0, 1, 28, 65, 65, 4},
		{"a window", 16, 8, 1, 8192, 64, 1024, 2, 8, 9, 9, 4},
		{"several runs", 32, 8, 4, 8192, 100, 0, 1, 128, 65, 65, 1},
		{"more rows than multiprocessors have room for at once", 40, 8, 1, 8192, 512, 0, 1, 160, 68, 66, 4},
	} {
		a := device.Attend{Heads: c.heads, KVHeads: c.kvHeads, Window: c.window}
		of := shapeOf(c.runs, 128, keys, 128, a, device.Batch{Span: c.span, Reach: c.behind + c.span})
		want := runsShape{rows: c.runs * c.span, heads: c.heads, columns: 128, together: c.together, items: c.items, longest: c.longest, middle: c.middle}
		if of != want || of.parts(sms) != c.parts {
			t.Errorf("%s: %+v, %d parts, want %+v, %d", c.name, of, of.parts(sms), want, c.parts)
		}
	}
	unknown := shapeOf(1, 128, keys, 128, device.Attend{Heads: 32, KVHeads: 8}, device.Batch{Span: 16})
	if n := unknown.parts(sms); n != 1 {
		t.Errorf("of runs that may reach anywhere: %d parts, want 1", n)
	}
}
