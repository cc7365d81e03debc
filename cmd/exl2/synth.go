package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"exl2/internal/regular"
	"exl2/internal/synth"
)

type synthOptions struct {
	config, out, tokenizer string
	bits                   float64
	seed                   uint64
	layers                 int
}

func newSynthCommand(a *app) *cobra.Command {
	o := &synthOptions{}
	c := &cobra.Command{
		Use:   "synth SHAPE -o DIR | synth --config FILE -o DIR",
		Short: "Write a random model, for benchmarks and tests",
		Long: `synth writes a model with random weights, fp16 or, with --bits, EXL2. The same
shape and seed give the same bytes. SHAPE is one of
` + wrapped(synth.Names()) + `or any config.json.`,
		Example: `  exl2 synth tinyllama-1.1b -o random
  exl2 synth llama2-7b --layers 2 -o random --tokenizer models/llama
  exl2 synth --config models/llama/config.json -o random --bits 4.0`,
		Args: atMostOne("SHAPE"),
		RunE: func(c *cobra.Command, args []string) error { return runSynth(c.Context(), a, o, args) },
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "config.json of the shape, instead of SHAPE (here, --config names no file of flags)")
	f.StringVarP(&o.out, "out-dir", "o", "", "folder to write to")
	f.Float64Var(&o.bits, "bits", 0, "EXL2 at this many bits per weight: "+synth.Widths+"; 0 for fp16")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the weights")
	f.IntVar(&o.layers, "layers", 0, "number of layers; 0 for the shape's own")
	f.StringVar(&o.tokenizer, "tokenizer", "", "folder whose tokenizer is copied")
	return c
}

// wrapped lists names, some to a line.
func wrapped(names []string) string {
	text := ""
	for i, n := range names {
		text += n
		switch {
		case i == len(names)-1, i%5 == 4:
			text += ",\n"
		default:
			text += ", "
		}
	}
	return text
}

// shape returns the shape that was asked for.
func (o *synthOptions) shape(ctx context.Context, args []string) (*synth.Shape, error) {
	if (o.config == "") == (len(args) == 0) {
		return nil, usage("give a shape or --config, one of them; see exl2 synth --help")
	}
	if o.config == "" {
		s, err := synth.Known(args[0])
		if err != nil {
			return nil, usageError{err}
		}
		return s, nil
	}
	s, err := regular.Await(ctx, func() (*synth.Shape, error) { return synth.Read(o.config) })
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return s, nil
}

func runSynth(ctx context.Context, a *app, o *synthOptions, args []string) error {
	if o.out == "" {
		return usage("--out-dir (-o) is missing; see exl2 synth --help")
	}
	o.out = settled(o.out)
	s, err := o.shape(ctx, args)
	if err != nil {
		return err
	}
	if o.layers < 0 {
		return usage("--layers: %d, want 0 or more", o.layers)
	}
	if o.layers > 0 {
		s.SetLayers(o.layers)
	}
	if o.bits != 0 {
		if _, err := synth.RecipeFor(o.bits); err != nil {
			return usage("--bits: %w", err)
		}
	}
	m, err := synth.New(s, o.seed, o.bits)
	if err != nil {
		return err
	}
	p, err := a.follow()
	if err != nil {
		return err
	}
	p.Start("write", len(m.Infos()))
	if err := m.Write(ctx, o.out, o.tokenizer, func(name string) { p.Step(name, "") }); err != nil {
		return err
	}
	p.Close()
	result := struct {
		Path string `json:"path"`
	}{o.out}
	return a.print(result, func(w io.Writer) { fmt.Fprintln(w, o.out) })
}
