package profile

import (
	"strings"
	"testing"

	"exl2/internal/device/devtest"
)

// Occurrences of a stage add up, in the order of the first ones; what is not
// counted is left out.
func TestStages(t *testing.T) {
	p := New(devtest.CPU(t))
	for range 2 {
		p.On("products", Work{Flops: 2e12, Bytes: 1e9})()
		p.Off("files")()
	}
	p.within.wall = -1 // a second is nobody's
	list := p.Stages(Rates{Flops: 1e18, Bytes: 1e18})
	if len(list) != 3 || list[0].Name != "products" || list[0].Flops != 4e12 || list[0].BoundShare <= 0 || list[1].Name != "files" || list[1].BoundShare != 0 || list[2].Name != Rest || list[2].Seconds < 1 {
		t.Errorf("%+v", list)
	}
	var out strings.Builder
	Print(&out, list)
	if lines := strings.Split(out.String(), "\n"); len(lines) != 5 || !strings.Contains(lines[1], "4.0") {
		t.Errorf("table:\n%s", &out)
	}
}

// Without a profile nothing is gathered.
func TestNone(t *testing.T) {
	var p *Profile
	p.On("a", Work{})()
	p.Off("b")()
	if p.Stages(Rates{}) != nil {
		t.Error("stages of no profile")
	}
}
