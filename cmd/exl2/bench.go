package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"exl2/infer"
	"exl2/internal/regular"
	"exl2/internal/synth"
)

type benchOptions struct {
	model, synthetic                    string
	prompts, generates, depths, batches []int
	repeat                              int
	output                              string
}

func newBenchCommand(a *app) *cobra.Command {
	o := &benchOptions{}
	c := &cobra.Command{
		Use:   "bench -m MODEL | bench --synthetic SHAPE@BITS",
		Short: "Measure the speed of a model",
		Long: `bench measures prompt processing (pp) and token generation (tg) in tokens a second,
how many bytes of weights and cache are read for every token, and what share of
the machine's memory bandwidth that is. The bandwidth is measured in the same
run: the better of a copy and a read over 1 GB. pp512 is a prompt of 512 tokens,
tg128 are 128 tokens generated one by one, @d8192 means behind 8192 others. Each
test is run before it counts, a prompt twice; how fast the first run was is said as
progress. Where a GPU keeps weights decoded (--keep-decoded), prompts are slower at first.

--synthetic measures a random model that exists in memory only: every matrix at
the given bits per weight, ` + synth.Widths + `, the head at 6. Shapes are
` + wrapped(synth.Names()) + `as in exl2 synth, or a config.json, whose name ends so. Of a mixture, what a token reads is counted: the chosen experts.`,
		Example: `  exl2 bench -m llama-4.0bpw
  exl2 bench -m llama-4.0bpw -p 512,2048 -n 128 -d 0,8192 --output csv
  exl2 bench --synthetic llama2-7b@4.0
  exl2 bench --synthetic models/gemma/config.json@4.0`,
		Args: flagsOnly,
		RunE: func(c *cobra.Command, _ []string) error { return runBench(c, a, o) },
	}
	f := c.Flags()
	f.StringVarP(&o.model, "model-dir", "m", "", "model: a folder, or org/name from the local Hugging Face cache")
	f.StringVar(&o.synthetic, "synthetic", "", "random model instead, as llama2-7b@4.0, or config.json@4.0")
	f.IntSliceVarP(&o.prompts, "prompt", "p", []int{512}, "tokens of a prompt; a list, 0 for no such test")
	f.IntSliceVarP(&o.generates, "generate", "n", []int{128}, "tokens to generate; a list, 0 for no such test")
	f.IntSliceVarP(&o.depths, "depth", "d", []int{0}, "positions before the test; a list")
	f.IntSliceVarP(&o.batches, "batch", "b", []int{1}, "sequences at once; a list")
	f.IntVarP(&o.repeat, "repeat", "r", 5, "repeats of every test")
	a.runFlags(f)
	f.StringVar(&o.output, "output", "md", "format of the result: md (a Markdown table), json or csv")
	return c
}

// benchResult is the JSON of bench.
type benchResult struct {
	Device    string     `json:"device"`
	Bandwidth float64    `json:"bandwidth"`
	Results   []benchRow `json:"results"`
}

type benchRow struct {
	Test            string  `json:"test"`
	Depth           int     `json:"depth"`
	Batch           int     `json:"batch"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	Deviation       float64 `json:"stddev"`
	BytesPerToken   float64 `json:"bytes_per_token"`
	Share           float64 `json:"bandwidth_share"`
}

func (o *benchOptions) check(a *app) error {
	if (o.model == "") == (o.synthetic == "") {
		return usage("give --model-dir (-m) or --synthetic, one of them; see exl2 bench --help")
	}
	for _, l := range []struct {
		flag  string
		list  []int
		least int
	}{{"prompt", o.prompts, 0}, {"generate", o.generates, 0}, {"depth", o.depths, 0}, {"batch", o.batches, 1}} {
		for _, v := range l.list {
			if v < l.least || v > 1<<24 {
				return usage("--%s: %d, want %d to %d", l.flag, v, l.least, 1<<24)
			}
		}
	}
	if len(o.tests()) == 0 {
		return usage("nothing to measure: give --prompt (-p), --generate (-n) or both another number than 0")
	}
	if o.repeat < 1 {
		return usage("--repeat: %d, want 1 or more", o.repeat)
	}
	switch o.output {
	case "csv":
		if a.json {
			return usage("--json and --output csv are both given")
		}
	case "md":
	case "json":
		a.json = true
	default:
		return usage("--output: %q, want md, json or csv", o.output)
	}
	return nil
}

// tests lists the combinations that are asked for.
func (o *benchOptions) tests() []infer.Test {
	var list []infer.Test
	for _, b := range o.batches {
		for _, d := range o.depths {
			for _, p := range o.prompts {
				if p > 0 {
					list = append(list, infer.Test{Prompt: p, Depth: d, Batch: b})
				}
			}
			for _, n := range o.generates {
				if n > 0 {
					list = append(list, infer.Test{Generate: n, Depth: d, Batch: b})
				}
			}
		}
	}
	return list
}

func runBench(c *cobra.Command, a *app, o *benchOptions) error {
	if err := o.check(a); err != nil {
		return err
	}
	room := infer.Options{Positions: 1, Sequences: 1}
	tests := o.tests()
	for _, t := range tests {
		room.Positions, room.Sequences = max(room.Positions, t.Positions()), max(room.Sequences, t.Batch)
	}
	e, err := o.load(c.Context(), a, room)
	if err != nil {
		return err
	}
	defer e.Close()
	r := &benchResult{Device: e.Devices()[0], Bandwidth: e.Bandwidth()}
	if err := o.measure(c, a, e, tests, r); err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) { printBench(w, r, o.output) })
}

// load loads the model that is to be measured.
func (o *benchOptions) load(ctx context.Context, a *app, room infer.Options) (*infer.Engine, error) {
	if o.synthetic == "" {
		dir, err := findModel(o.model)
		if err != nil {
			return nil, err
		}
		return a.openModel(dir, room)
	}
	load, err := regular.Await(ctx, func() (func(infer.Options) (*infer.Engine, error), error) { return infer.Random(o.synthetic) })
	if err != nil {
		return nil, usage("--synthetic: %w", err)
	}
	room = a.on(room)
	if err := room.Check(); err != nil {
		return nil, usageError{err}
	}
	return load(room)
}

func (o *benchOptions) measure(c *cobra.Command, a *app, e *infer.Engine, tests []infer.Test, r *benchResult) error {
	p, err := a.follow()
	if err != nil {
		return err
	}
	defer p.Close()
	p.Start("bench", len(tests))
	for _, t := range tests {
		s, err := e.Bench(c.Context(), t, o.repeat)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name(), err)
		}
		row := benchRow{t.Name(), t.Depth, t.Batch, s.TokensPerSecond, s.Deviation, s.BytesPerToken, 0}
		if r.Bandwidth > 0 {
			row.Share = s.TokensPerSecond * s.BytesPerToken / r.Bandwidth
		}
		r.Results = append(r.Results, row)
		p.Step(t.Name(), fmt.Sprintf("%.1f tokens a second, at first %.1f", s.TokensPerSecond, s.First))
	}
	return nil
}

func printBench(w io.Writer, r *benchResult, format string) {
	if format == "csv" {
		printBenchCSV(w, r)
		return
	}
	fmt.Fprintf(w, "%s, %.1f GB/s\n\n", r.Device, r.Bandwidth/1e9)
	fmt.Fprintln(w, "| test | batch | tokens/s | MB/token | bandwidth |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|")
	for _, v := range r.Results {
		fmt.Fprintf(w, "| %s | %d | %.2f ± %.2f | %.3f | %.1f %% |\n", v.Test, v.Batch, v.TokensPerSecond, v.Deviation, v.BytesPerToken/1e6, 100*v.Share)
	}
}

func printBenchCSV(w io.Writer, r *benchResult) {
	c := csv.NewWriter(w)
	c.Write([]string{"device", "bandwidth", "test", "depth", "batch", "tokens_per_second", "stddev", "bytes_per_token", "bandwidth_share"})
	for _, v := range r.Results {
		c.Write([]string{
			r.Device, fmt.Sprint(r.Bandwidth), v.Test, fmt.Sprint(v.Depth), fmt.Sprint(v.Batch), fmt.Sprint(v.TokensPerSecond),
			fmt.Sprint(v.Deviation), fmt.Sprint(v.BytesPerToken), fmt.Sprint(v.Share),
		})
	}
	c.Flush()
}
