package model_test

import (
	"strings"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/model"
)

// Sequences that are longer than a table of positions, or than what is known of a model's
// attention, are refused.
func TestCheckLength(t *testing.T) {
	for want, spec := range map[string]arch.Spec{
		"how DeepseekV32ForCausalLM attends to more than 64 is not known": {Arch: "DeepseekV32ForCausalLM", Bound: 64},
		"the model has learned 64":                                        {Learned: 64},
	} {
		l := model.Loader{Spec: spec}
		if err := l.CheckLength(64); err != nil {
			t.Errorf("64 positions: %v", err)
		}
		if err := l.CheckLength(65); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("65 positions: %v, want %q", err, want)
		}
	}
}
