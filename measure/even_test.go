package measure

import "testing"

// Without any sensitivity the matrices' own errors decide; with one, none is touched.
func TestEvenOut(t *testing.T) {
	file := func(sensitivities ...float64) *File {
		f := &File{}
		for _, s := range sensitivities {
			f.Sublayers = append(f.Sublayers, Sublayer{Tables: []Table{{Sensitivity: s, Candidates: []Candidate{{Error: 0.1}}}}})
		}
		return f
	}
	for _, c := range []struct {
		name string
		file *File
		even bool
		want float64 // of the last matrix
	}{
		{"none", file(0, 0), true, 1},
		{"one", file(0.5, 0), false, 0},
		{"no tables", &File{Sublayers: []Sublayer{{}}}, false, 0},
		{"no errors", &File{Sublayers: []Sublayer{{Tables: []Table{{Candidates: []Candidate{{}}}}}}}, false, 0},
	} {
		if even := c.file.EvenOut(); even != c.even {
			t.Errorf("%s: even %v", c.name, even)
		}
		if last := c.file.Sublayers[len(c.file.Sublayers)-1].Tables; len(last) > 0 && last[0].Sensitivity != c.want {
			t.Errorf("%s: sensitivity %v, want %v", c.name, last[0].Sensitivity, c.want)
		}
	}
}
