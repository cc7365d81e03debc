// Package prequant reads checkpoints that others have quantized: GPTQ, AWQ,
// compressed-tensors, Model Optimizer's, FP8, MXFP4 and NVFP4.
//
// The nouns: a [Scheme] is what a model's folder says of its quantization. [Files]
// shows the files of such a model as if its matrices were not quantized, and hands
// out those that devices can multiply by as they are ([affine.Matrix]).
package prequant

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"exl2/internal/affine"
	"exl2/internal/arch"
	"exl2/internal/regular"
)

// A Method is a family of formats, by its name in quant_method.
type Method string

// The methods.
const (
	GPTQ       Method = "gptq"
	AWQ        Method = "awq"
	FP8        Method = "fp8"
	MXFP4      Method = "mxfp4"
	Compressed Method = "compressed-tensors"
	ModelOpt   Method = "modelopt"
)

// methods are the values of quant_method that are known, exl2 among them.
const methods = "auto-round, awq, compressed-tensors, exl2, fp8, fbgemm_fp8, gptq, modelopt, mxfp4"

// A Scheme is how a model's matrices are quantized. What the shapes of tensors
// say is checked with them.
type Scheme struct {
	Method  Method
	Bits    int      // of a code; 0 where tensors say it
	Group   int      // rows of a group; 0 means all
	V2      bool     // GPTQ's zeros are as they are, not less one
	ByWord  bool     // or less the constants of GPTQModel, by whole words
	Varying bool     // bits and groups differ from module to module
	Ordered bool     // rows are not in the order of their groups (desc_act)
	Even    bool     // codes are symmetric about a zero in the middle
	Block   [2]int   // rows and columns of a block of an FP8 weight
	Plain   []string // modules that are not quantized
	Warning string   // which fields of the configuration are not understood, or ""

	forms  []form // of compressed-tensors
	unsaid bool   // Group is a guess: tensors say how many groups there are
}

// Read returns the scheme of the model in a folder with the given config.json,
// nil if the model is not quantized or is EXL2.
func Read(dir string, config *arch.Config) (*Scheme, error) {
	c := said(config)
	if err := c.Err(); err != nil {
		return nil, err
	}
	if !c.Any() {
		var err error
		if c, err = beside(dir); c == nil || err != nil {
			return nil, err
		}
	}
	refuseRotated(c)
	s := read(c)
	if s != nil {
		s.Warning = c.Unread(inert)
	}
	return s, c.Err()
}

// said returns what a config.json says, or an empty object.
func said(config *arch.Config) *arch.Config {
	holders := []*arch.Config{config}
	for _, key := range []string{"thinker_config", "text_config"} {
		if c := holders[len(holders)-1]; c.Has(key) {
			holders = append(holders, c.Object(key))
		}
	}
	for _, holder := range holders {
		for _, key := range arch.QuantizationKeys {
			if holder.Has(key) {
				return holder.Object(key)
			}
		}
	}
	return config.Object(arch.QuantizationKeys[0])
}

// names of files that quantizers have written beside config.json, and their method.
var besides = []struct {
	name   string
	method Method
}{{"quantize_config.json", GPTQ}, {"quant_config.json", AWQ}, {"hf_quant_config.json", ModelOpt}}

// maxConfig bounds the size of such a file.
const maxConfig = 1 << 20

// beside returns the configuration that such a file holds, nil if there is none.
func beside(dir string) (*arch.Config, error) {
	for _, b := range besides {
		path := filepath.Join(dir, b.name)
		data, err := regular.Read(path, maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c, err := arch.ParseConfig(path, data)
		if err != nil {
			return nil, err
		}
		if b.method == ModelOpt { // what it quantizes, beside who has written it
			c = c.Object("quantization")
		}
		if !c.Has("quant_method") {
			c.Default("quant_method", string(b.method))
		}
		return c, nil
	}
	return nil, nil
}

// read turns a configuration into a scheme.
func read(c *arch.Config) *Scheme {
	switch m := strings.ToLower(c.String("quant_method", unnamed(c))); m {
	case "exl2":
		return nil
	case "gptq":
		return readGPTQ(c)
	case "awq":
		return readAWQ(c)
	case "auto-round", "intel/auto-round":
		return readAutoRound(c)
	case "fp8", "fbgemm_fp8":
		return readFP8(c)
	case "mxfp4":
		return &Scheme{Method: MXFP4, Plain: c.Strings("modules_to_not_convert")}
	case "compressed-tensors":
		return readCompressed(c)
	case "modelopt", "modelopt_fp4":
		return readModelOpt(c)
	case "":
		c.Refuse("quant_method", "it is missing (known: %s); use the model's original", methods)
	default:
		c.Refuse("quant_method", "%q (known: %s); use the model's original", m, methods)
	}
	return nil
}

// unnamed returns the method of a configuration that does not name it, "" if that is not known.
func unnamed(c *arch.Config) string {
	switch fields := c.Fields(); {
	case fields["load_in_4bit"] != nil || fields["load_in_8bit"] != nil:
		return "bitsandbytes"
	case fields["group_size"] != nil && fields["bits"] != nil && fields["sym"] == nil && fields["desc_act"] == nil:
		return "mlx"
	}
	return ""
}

// readAutoRound reads AutoRound's own configurations. Their tensors are GPTQ's or AWQ's, as
// packing_format says, or backend, in the first ones: "auto_round:gptq:exllamav2".
func readAutoRound(c *arch.Config) *Scheme {
	key := "packing_format"
	if !c.Has(key) && c.Has("backend") {
		key = "backend"
	}
	if t := c.String("data_type", "int"); t != "int" {
		c.Refuse("data_type", "%q, want \"int\"; use the model's original", t)
	}
	packing := c.String(key, "auto_round:auto_gptq")
	layout, _, _ := strings.Cut(strings.TrimPrefix(packing, "auto_round:"), ":")
	switch layout {
	case "gptq", "auto_gptq", "auto":
		return readGPTQ(c)
	case "awq", "auto_awq":
		return readAWQ(c)
	}
	c.Refuse(key, "%q (known: auto_round:auto_gptq, auto_round:auto_awq); use the model's original", packing)
	return nil
}

func readGPTQ(c *arch.Config) *Scheme {
	s := &Scheme{Method: GPTQ, Bits: c.Int("bits"), Group: c.Int("group_size", 128), Ordered: c.Bool("desc_act", false), Even: c.Bool("sym", false)}
	s.Plain = c.Strings("modules_to_not_convert")
	format := "checkpoint_format"
	if !c.Has(format) && c.Has("format") {
		format = "format"
	}
	switch f := c.String(format, "gptq"); f {
	case "gptq":
	case "gptq_v2":
		s.V2 = true
	default:
		c.Refuse(format, "%q (known: gptq, gptq_v2); use the model's files of one of these, or its original", f)
	}
	if c.Bool("is_marlin_format", false) {
		c.Refuse("is_marlin_format", "Marlin's layout is for one kernel; use the model's gptq files, or its original")
	}
	if p := c.String("pack_dtype", "int32"); p != "int32" {
		c.Refuse("pack_dtype", "%q, want \"int32\"; use the model's original", p)
	}
	s.unsaid = !c.Has("group_size")
	dynamic, extra := readRules(c.Object("dynamic")), readRules(c.Object("extra_config")) // GPTQModel's, AutoRound's
	s.Varying = dynamic || extra
	s.ByWord = strings.Contains(fmt.Sprint(c.Object("meta").Fields()["quantizer"]), "gptqmodel")
	s.check(c, "bits", "group_size")
	return s
}

// readRules reads how modules differ, and reports whether any do.
func readRules(c *arch.Config) bool {
	for key, v := range c.Fields() {
		if _, ok := v.(map[string]any); ok {
			rule := c.Object(key)
			rule.Has("bits") // are what shapes say
			rule.Has("group_size")
		}
	}
	return c.Any()
}

func readAWQ(c *arch.Config) *Scheme {
	bits, group := "bits", "group_size"
	if !c.Has(bits) && c.Has("w_bit") {
		bits, group = "w_bit", "q_group_size"
	}
	s := &Scheme{Method: AWQ, Bits: c.Int(bits), Group: c.Int(group, 128), Plain: c.Strings("modules_to_not_convert")}
	if v := c.String("version", "gemm"); !strings.EqualFold(v, "gemm") {
		c.Refuse("version", "%q, want \"gemm\"; use the model's files of that version, or its original", v)
	}
	if !c.Bool("zero_point", true) {
		c.Refuse("zero_point", "false; use the model's original")
	}
	if s.Bits != 4 {
		c.Refuse(bits, "%d, want 4", s.Bits)
	}
	s.check(c, bits, group)
	return s
}

// check refuses numbers that no matrix can have.
func (s *Scheme) check(c *arch.Config, bits, group string) {
	if !slices.Contains(affine.Widths, s.Bits) {
		c.Refuse(bits, "%d, want one of %v; use the model's original", s.Bits, affine.Widths)
	}
	switch {
	case s.Group == -1:
		s.Group = 0
	case s.Group < 1:
		c.Refuse(group, "%d, want a positive number, or -1 for all rows", s.Group)
	}
}

// plain reports whether a module is one that the scheme leaves alone.
func (s *Scheme) plain(module string) bool {
	return slices.ContainsFunc(s.Plain, func(name string) bool {
		return name != "" && strings.Contains("."+module+".", "."+name+".")
	})
}

// Lossy reports whether a model is quantized to fewer bits than those that models
// are published in. s may be nil.
func (s *Scheme) Lossy() bool {
	return s != nil && (s.Method == GPTQ || s.Method == AWQ || (s.Method == Compressed || s.Method == ModelOpt) && s.Bits < 8)
}

// String says what the scheme is, for people: "GPTQ, 4 bits in groups of 128".
func (s *Scheme) String() string {
	name := map[Method]string{GPTQ: "GPTQ", AWQ: "AWQ", FP8: "FP8", MXFP4: "MXFP4", Compressed: "compressed-tensors", ModelOpt: "Model Optimizer"}[s.Method]
	if s.Bits == 0 {
		return name
	}
	text := fmt.Sprintf("%s, %d bits", name, s.Bits)
	if s.Group > 0 {
		text += fmt.Sprintf(" in groups of %d", s.Group)
	}
	if s.Ordered {
		text += ", rows in order of activations"
	}
	return text
}
