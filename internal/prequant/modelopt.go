package prequant

import (
	"maps"
	"slices"
	"strings"

	"exl2/internal/arch"
)

// algorithms are those of Model Optimizer whose weights are read: bits of a code, and
// inputs that share a scale, 0 where the tensors' shapes say it.
var algorithms = map[string]struct{ bits, group int }{
	"FP8":                       {8, 0},
	"FP8_PER_CHANNEL_PER_TOKEN": {8, 0},
	"FP8_PB_WO":                 {8, 0},
	"MXFP8":                     {8, 32},
	"NVFP4":                     {4, 16},
	"W4A16_NVFP4":               {4, 16},
}

// optimizerBlock is the rows and columns of a block of FP8_PB_WO.
var optimizerBlock = [2]int{128, 128}

// readModelOpt reads what NVIDIA's Model Optimizer exports, the object quantization of its
// hf_quant_config.json or config.json's quantization_config.
func readModelOpt(c *arch.Config) *Scheme {
	s := &Scheme{Method: ModelOpt}
	for _, name := range append(c.Strings("ignore"), c.Strings("exclude_modules")...) {
		if !strings.Contains(name, "*") {
			s.Plain = append(s.Plain, name)
		}
	}
	c.Has("config_groups") // says what quant_algo does
	if algorithm := c.String("quant_algo", ""); strings.EqualFold(algorithm, "MIXED_PRECISION") {
		s.Varying = true
		layers := c.Object("quantized_layers")
		for _, name := range slices.Sorted(maps.Keys(layers.Fields())) {
			layers.Object(name).Has("group_size") // which quant_algo says, too
			s.algorithm(layers.Object(name))
		}
	} else {
		s.algorithm(c)
	}
	if c.Has("group_size") && !s.Varying && s.Group > 0 && c.Int("group_size") != s.Group {
		c.Refuse("group_size", "%d, want %d; use the model's original", c.Int("group_size"), s.Group)
	}
	return s
}

// algorithm reads how some modules are quantized.
func (s *Scheme) algorithm(c *arch.Config) {
	name := c.String("quant_algo", "")
	a, ok := algorithms[strings.ToUpper(name)]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(algorithms)), ", ")
		c.Refuse("quant_algo", "%q (known: %s, and MIXED_PRECISION of these); use the model's original", name, known)
	}
	if s.Bits == 0 || a.bits < s.Bits {
		s.Bits = a.bits
	}
	if strings.EqualFold(name, "FP8_PB_WO") {
		s.Block = optimizerBlock
	}
	if !s.Varying {
		s.Group = a.group
	}
}
