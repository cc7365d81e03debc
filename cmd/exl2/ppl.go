package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"exl2/convert"
	"exl2/infer"
	"exl2/internal/exl2"
	"exl2/internal/safetensors"
)

type pplOptions struct {
	models          []string
	reference, plot string
	points          string
	file, column    string
	rows, length    int
	context         int
	bos             bool
	ropeScale       float64
	ropeAlpha       float64
}

func newPPLCommand(a *app) *cobra.Command {
	o := &pplOptions{}
	c := &cobra.Command{
		Use:   "ppl -m MODEL -ed FILE",
		Short: "Measure perplexity, and distance from a reference model",
		Long: `ppl measures how well a model, fp16 or EXL2, predicts a text: the lower the
perplexity, the better. The text is cut into rows without overlap, -er of them at
most, of -el tokens each; the first token of a row is not predicted. Perplexities
compare only over the same text, rows and length, and the same tokenizer.

Plain text is taken as it is; records of Parquet and JSON lines are joined by
blank lines. There is no BOS token unless --bos asks for it. With --reference
it also reports the Kullback-Leibler divergence from that model's predictions (in
nats, reference first) and how often the most likely tokens agree. Several models,
-m A,B,C, are measured one after the other on the same rows; models that read the
text as different tokens are refused. --plot draws their divergence over the size
of their files, each marked with its target; --points adds what other programs
reach, from a file with one line a model:

  program,label,file_bytes,kl
  llama.cpp,Q4_K_M,4080263136,0.0312`,
		Example: `  exl2 ppl -m llama-4.0bpw -ed text.txt -er 64 -el 1024
  exl2 ppl -m llama-4.0bpw -ed text.parquet --reference models/llama --json
  exl2 ppl -m llama-3.0bpw,llama-4.0bpw -ed text.txt --reference models/llama --plot kl.svg`,
		Args: flagsOnly,
		RunE: func(c *cobra.Command, _ []string) error { return runPPL(c, a, o) },
	}
	f := c.Flags()
	f.StringSliceVarP(&o.models, "model-dir", "m", nil, "model: a folder, or org/name from the local Hugging Face cache; a list for several")
	f.StringVar(&o.plot, "plot", "", "draw divergence over file size to this file (.svg, .png or .pdf)")
	f.StringVar(&o.points, "points", "", "draw the points of other programs, too: CSV with "+strings.Join(pointsHeader, ","))
	f.StringVar(&o.file, "eval-dataset", "", "text: Parquet, JSON lines or plain (-ed)")
	f.StringVar(&o.column, "column", "", "column of the text (default: text, content, a conversation, or all)")
	f.IntVar(&o.rows, "eval-rows", 128, "rows, at most (-er)")
	f.IntVar(&o.length, "eval-length", 2048, "tokens of a row (-el); not more than a --length that is given")
	f.StringVar(&o.reference, "reference", "", "model to compare with, usually the source; a folder, or org/name")
	f.BoolVar(&o.bos, "bos", false, "begin every row with the token that begins texts")
	f.IntVarP(&o.context, "length", "l", 0, "context to make room for (default: a row)")
	ropeFlags(f, &o.ropeScale, &o.ropeAlpha)
	a.runFlags(f)
	return c
}

// pplResult is the JSON of ppl.
type pplResult struct {
	Model      string            `json:"model"`
	Perplexity float64           `json:"perplexity"`
	Tokens     int               `json:"tokens"`
	Rows       int               `json:"rows"`
	Length     int               `json:"length"`
	KL         *infer.Divergence `json:"kl,omitempty"`
	Agreement  *float64          `json:"top1_agreement,omitempty"`

	fileBytes int64 // for the plot
}

func (o *pplOptions) check() error {
	switch {
	case len(o.models) == 0:
		return usage("--model-dir (-m) is missing; see exl2 ppl --help")
	case slices.Contains(o.models, ""):
		return usage("--model-dir (-m): an empty name in the list %q", strings.Join(o.models, ","))
	case o.file == "":
		return usage("--eval-dataset (-ed) is missing; see exl2 ppl --help")
	case o.plot != "" && o.reference == "":
		return usage("--plot draws the divergence from a --reference; give one")
	case o.points != "" && o.plot == "":
		return usage("--points adds to the picture of --plot; give its name")
	case o.context > 0 && o.context < o.length:
		return usage("--length: a context of %d tokens is too short for rows of %d (-el); give a larger one, or shorter rows", o.context, o.length)
	}
	if err := o.checkPictures(); err != nil {
		return err
	}
	return cmp.Or(
		within("eval-rows", o.rows, 1, math.MaxInt32), within("eval-length", o.length, 2, 1<<20), within("length", o.context, 0, infer.MaxPositions),
		checkRope(o.ropeScale, o.ropeAlpha))
}

// checkPictures finds before the work what would fail after it.
func (o *pplOptions) checkPictures() error {
	if o.plot == "" {
		return nil
	}
	if err := checkPicture(o.plot); err != nil || o.points == "" {
		return err
	}
	_, err := readPoints(o.points)
	return err
}

func runPPL(c *cobra.Command, a *app, o *pplOptions) error {
	if o.context > 0 && !c.Flags().Changed("eval-length") { // nobody asked for longer rows
		o.length = min(o.length, o.context)
	}
	if err := o.check(); err != nil {
		return err
	}
	var dirs []string
	for _, name := range o.models {
		dir, err := findModel(name)
		if err != nil {
			return err
		}
		dirs = append(dirs, dir)
	}
	all := dirs
	if o.reference != "" {
		dir, err := findModel(o.reference)
		if err != nil {
			return err
		}
		o.reference, all = dir, append(slices.Clone(dirs), dir)
	}
	rows, err := o.textRows(c.Context(), a, all)
	if err != nil {
		return err
	}
	reference, err := o.loadReference(a)
	if err != nil {
		return err
	}
	if reference != nil {
		defer reference.Close()
	}
	var results []pplResult
	for _, dir := range dirs {
		r, err := o.score(c, a, dir, reference, rows)
		if err != nil {
			return err
		}
		results = append(results, *r)
	}
	err = a.print(pplReport(results), func(w io.Writer) {
		for _, r := range results {
			printPPL(w, r)
		}
	})
	if err != nil || o.plot == "" {
		return err
	}
	return o.draw(results)
}

// draw draws the results, and the points of other programs.
func (o *pplOptions) draw(results []pplResult) error {
	s, err := measured(results)
	if err != nil {
		return err
	}
	all := []series{s}
	if o.points != "" {
		others, err := readPoints(o.points)
		if err != nil {
			return err
		}
		all = append(all, others...)
	}
	return plotDivergence(o.plot, o.reference, all)
}

// pplReport is what --json prints: the result, or an object around several.
func pplReport(results []pplResult) any {
	if len(results) == 1 {
		return results[0]
	}
	return struct {
		Models []pplResult `json:"models"`
	}{results}
}

// loadReference loads the model to compare with, nil if there is none.
func (o *pplOptions) loadReference(a *app) (*infer.Engine, error) {
	if o.reference == "" {
		return nil, nil
	}
	return o.load(a, o.reference)
}

// score measures one model, which must speak the reference's tokens.
func (o *pplOptions) score(c *cobra.Command, a *app, dir string, reference *infer.Engine, rows [][]int32) (*pplResult, error) {
	engine, err := o.load(a, dir)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	s, err := scoreRows(c, a, engine, reference, rows)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", dir, err)
	}
	r := &pplResult{Model: dir, Perplexity: s.Perplexity(), Tokens: s.Tokens(), Rows: len(rows), Length: o.length}
	if math.IsInf(r.Perplexity, 0) {
		return nil, fmt.Errorf("model %s: it gives no probability to the text", dir)
	}
	if reference != nil {
		kl, agreement := s.KL(), s.Agreement()
		r.KL, r.Agreement = &kl, &agreement
	}
	if o.plot != "" {
		r.fileBytes, err = weightBytes(dir)
	}
	return r, err
}

// weightBytes returns the size of a model's weight files.
func weightBytes(dir string) (int64, error) {
	files, err := safetensors.OpenDir(dir, exl2.IsCodes)
	if err != nil {
		return 0, err
	}
	defer files.Close()
	return fileBytes(files)
}

// fileBytes returns the size of all files of a set.
func fileBytes(files *safetensors.Set) (int64, error) {
	sum := int64(0)
	for _, p := range files.Paths() {
		info, err := os.Stat(p)
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, nil
}

// scoreRows scores the rows and shows how it goes.
func scoreRows(c *cobra.Command, a *app, engine, reference *infer.Engine, rows [][]int32) (*infer.Score, error) {
	p, err := a.follow()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	p.Start("perplexity", len(rows))
	n := 0
	return engine.Perplexity(c.Context(), reference, rows, func(s *infer.Score) {
		n++
		p.Step(fmt.Sprintf("row %d", n), convert.Perplexity(s.Perplexity()).Text(4))
	})
}

func (o *pplOptions) load(a *app, dir string) (*infer.Engine, error) {
	return a.openModel(dir, infer.Options{Positions: max(o.length, o.context), RopeScale: o.ropeScale, RopeAlpha: o.ropeAlpha})
}

func printPPL(w io.Writer, r pplResult) {
	fmt.Fprintf(w, "%s: perplexity %s over %d tokens (%d rows of %d)\n", filepath.Clean(r.Model), convert.Perplexity(r.Perplexity).Text(4), r.Tokens, r.Rows, r.Length)
	if r.KL != nil {
		fmt.Fprintf(w, "KL divergence: mean %.5f, median %.5f, 90 %% %.5f, 99 %% %.5f, largest %.5f nats\n", r.KL.Mean, r.KL.Median, r.KL.P90, r.KL.P99, r.KL.Max)
		fmt.Fprintf(w, "most likely token agrees: %.2f %%\n", 100**r.Agreement)
	}
}
