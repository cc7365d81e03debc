package prequant

import (
	"maps"
	"slices"
	"strings"

	"exl2/internal/arch"
)

// readFP8 reads what DeepSeek, Qwen and Mistral publish.
func readFP8(c *arch.Config) *Scheme {
	s := &Scheme{Method: FP8, Plain: append(c.Strings("modules_to_not_convert"), c.Strings("ignored_layers")...)}
	if f := c.String("fmt", "e4m3"); f != "e4m3" && f != "float8_e4m3fn" {
		c.Refuse("fmt", "%q, want \"e4m3\"; use the model's original", f)
	}
	s.Block = blockOf(c, "weight_block_size")
	return s
}

// blockOf reads the size of blocks, if there are any.
func blockOf(c *arch.Config, key string) (b [2]int) {
	size := c.Floats(key)
	if size == nil {
		return b
	}
	if len(size) != 2 || slices.ContainsFunc(size, func(n float64) bool { return n < 1 || n > 1<<20 || n != float64(int(n)) }) {
		c.Refuse(key, "%v, want two sizes", size)
		return b
	}
	return [2]int{int(size[0]), int(size[1])}
}

// formats are those of compressed-tensors that are read.
var formats = []string{"pack-quantized", "float-quantized", "int-quantized", "naive-quantized", "mixed-precision", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"}

// readCompressed reads what llm-compressor writes.
func readCompressed(c *arch.Config) *Scheme {
	s := &Scheme{Method: Compressed}
	for _, name := range c.Strings("ignore") {
		if !strings.HasPrefix(name, "re:") {
			s.Plain = append(s.Plain, name)
		}
	}
	known := func(c *arch.Config) {
		if f := c.String("format", formats[0]); !slices.Contains(formats, f) {
			c.Refuse("format", "%q (known: %s); use the model's original", f, strings.Join(formats, ", "))
		}
	}
	known(c)
	if f := c.Object("sparsity_config").String("format", "dense"); f != "dense" {
		c.Object("sparsity_config").Refuse("format", "%q, want \"dense\"; use the model's original", f)
	}
	groups := c.Object("config_groups")
	for _, name := range slices.Sorted(maps.Keys(groups.Fields())) {
		g := groups.Object(name)
		known(g)
		if w := g.Object("weights"); w.Any() {
			s.weights(w, "config_groups."+name+".weights")
		}
		for _, key := range []string{"input_activations", "output_activations"} {
			a := g.Object(key)
			oneOf(a, "type", kinds)
			oneOf(a, "strategy", strategies)
			for _, field := range strings.Fields("num_bits group_size symmetric dynamic block_structure") {
				a.Has(field) // and means nothing here: activations are computed as they are
			}
		}
	}
	return s
}

// weights reads how the weights of a group of modules are quantized.
func (s *Scheme) weights(c *arch.Config, at string) {
	f := readForm(c, at)
	f.block = blockOf(c, "block_structure")
	bits, group := c.Int("num_bits", 8), max(0, f.group)
	if bits != 4 && bits != 8 {
		c.Refuse("num_bits", "%d bits of type %q, want 4 or 8; use the model's original", bits, f.kind)
	}
	if c.Has("dynamic") && says(c.Fields()["dynamic"]) {
		c.Refuse("dynamic", "%v, want false of weights; use the model's original", c.Fields()["dynamic"])
	}
	if f.block != [2]int{} {
		s.Block = f.block
	}
	if len(s.forms) == 0 {
		s.Bits, s.Group = bits, group
	} else if bits != s.Bits || group != s.Group {
		s.Bits, s.Varying = min(s.Bits, bits), true
	}
	s.forms = append(s.forms, f)
}
