package cuda

import (
	"slices"
	"strings"
	"testing"

	"exl2/internal/tensor"
)

// Only a kernel that waits by itself for the one before it can be launched in clusters;
// no other is launched without them instead.
func TestClustersNeedAWait(t *testing.T) {
	d := newFake().open(t)
	x, rows := d.Alloc(tensor.F32, 1, 64), d.Alloc(tensor.I32, 1, 1)
	k := kernel(slices.IndexFunc(kernels[:], func(k struct {
		op, name  string
		dependent bool
	}) bool {
		return !k.dependent
	}))
	a := d.begin(k)
	a.tensor(x, tensor.F32, "x")
	a.tensor(rows, tensor.I32, "rows")
	d.launch(a, launch{blocks: dim{x: 2}, threads: dim{x: 32}, cluster: 2})
	if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "launch of "+kernels[k].name+": in clusters of 2") {
		t.Errorf("error %v", err)
	}
}
