package arch

import (
	"testing"

	"exl2/internal/goldens"
)

// The configurations of the golden models are understood, to the last field.
func TestGoldenConfigs(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			s, err := ReadSpec(dir)
			if err != nil {
				t.Fatal(err)
			}
			if s.Warnings != nil {
				t.Errorf("fields not understood: %v", s.Warnings)
			}
		})
	}
}
