package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"exl2/convert"
	"exl2/internal/profile"
)

// convertOptions are the flags of convert, and of measure.
type convertOptions struct {
	convert.Options
	bits      []string
	gpuMemory float64

	resume bool // what happens anyway
}

func newConvertCommand(a *app) *cobra.Command {
	o := &convertOptions{}
	c := &cobra.Command{
		Use:   "convert -i MODEL -o WORK [-cf OUT] [-b BITS]",
		Short: "Quantize a Hugging Face model to EXL2",
		Long: `convert quantizes a model to a mean number of bits per weight of its decoder. It
measures what every matrix loses in every recipe, solves for the best choice
within the target, quantizes, and writes a folder that ExLlamaV2 and exl2 load.
The head competes with the decoder for bits: together they take what the target and
a head of 6 bits would. With -hb the head has bits of its own.

WORK holds the job in WORK/job; the finished model goes to WORK itself or to the
folder given with -cf. -om FILE ends after measuring, as exl2 measure does. With several bits, -b 3.0,4.0, one measurement serves all,
and each model goes to a folder <bits>bpw, bits as typed. In a file given with
--config bits are best written as strings, ["3.0", "4.0"], as numbers lose their
last zero there.

Before it begins it says how much memory, disk and time it will take; a target
that the model cannot have is refused with the range that it can. An interrupted
job goes on when the same command is given again, or with -o WORK alone; one that
exl2 measure began in WORK, with the same calibration data and measurement rows,
goes on from there. With other options, or when the model has changed, it is
refused; --restart begins again and deletes what the job wrote, as far as it still
is as it was written. A file that the job did not write is never replaced, nor are
models written beside other weights, unless --overwrite says so. Two processes
cannot work on one job.

Of a mixture of experts every expert is measured and quantized on the tokens that
choose it; one that fewer choose than its matrices have inputs is calibrated on all
tokens, and --calibrate-all-experts does so for every one. A table says how many
tokens the experts of each layer have seen.

--quality best trains the codes of the finished model on text that the source writes,
with the source as the teacher, a few minutes on a GPU for small models, and more the
larger they are. It takes 12 bytes a weight; what a GPU has no room for, or --gpu-memory
leaves none for, is in the machine's memory meanwhile. --quality fast leaves out what
improves codes one matrix at a time.

Before measuring, outliers of norms, and of some matrices, are scaled away against what
reads them, where quantized matrices then lose less, and the residual stream may be
rotated; the report says so. What the model computes stays, and its file is a plain one.
--fold none leaves the source as it is, --fold rotation rotates in any case.

Calibration data is text like that which the model will read. Without -c the
built-in set is used: code, prose, dialogue and web text in many languages.
Perplexities that are printed are on calibration data; exl2 ppl on other text
says what the conversion has cost.

A GPU converts if there is one; --devices cpu takes the CPU. With several GPUs of one
type, --devices 0,1, each measures layers, and quantizes targets, of its own, to the
same bytes as one. How much of a GPU's memory a job will take is said before it
begins, and kept to; it keeps there what has room: hidden states, activations, the
source's weights. --low-memory, or --gpu-memory with a number of GB, has it take less
and more time, to the same bytes; but rows are only sampled from the source, which
--synthetic-rows tells of, where all of it has room, with --low-memory none. A job
that goes on has those that it began with.`,
		Example: `  exl2 convert -i models/llama -o work -cf llama-4.0bpw -b 4.0
  exl2 convert -i models/llama -o work -b 2.5,3.0,4.0 -c text.parquet
  exl2 convert -i models/llama -o work -b 5.0 -m other/measurement.json`,
		Args: flagsOnly,
		RunE: func(c *cobra.Command, _ []string) error { return runConvert(c, a, o) },
	}
	o.flags(c.Flags())
	return c
}

// flags defines the flags, which both commands have.
func (o *convertOptions) flags(f *pflag.FlagSet) {
	d := &o.Data
	f.StringVarP(&o.Source, "in-dir", "i", "", "model to convert: a folder, or org/name from the local Hugging Face cache")
	f.StringVarP(&o.Work, "out-dir", "o", "", "folder of the job; made if it is not there")
	f.StringVar(&o.SaveMeasurement, "output-measurement", "", "measure only, and write the measurement to this file, too (-om)")
	f.StringVarP(&d.File, "cal-dataset", "c", "", "calibration data: Parquet, JSON lines or text (default: the built-in set)")
	f.StringVar(&d.Column, "column", "", "column of the calibration data (default: text, content, a conversation, or all)")
	f.IntVarP(&d.Rows, "dataset-rows", "r", 100, "calibration rows for quantizing, at most")
	f.IntVarP(&d.Length, "length", "l", 2048, "tokens of a row for quantizing")
	f.IntVar(&d.MeasureRows, "measurement-rows", 16, "calibration rows for measuring, at most (-mr)")
	f.IntVar(&d.MeasureLength, "measurement-length", 2048, "tokens of a row for measuring (-ml)")
	ropeFlags(f, &o.RopeScale, &o.RopeAlpha)
	f.BoolVar(&o.AllExperts, "calibrate-all-experts", false, "calibrate every expert of a mixture on all tokens, not only those that see too few")
	f.BoolVar(&o.resume, "resume", false, "continue an interrupted job, which is done anyway (-res)")
	f.BoolVar(&o.Restart, "restart", false, "delete the job that is there and begin again (-nr)")
	f.BoolVar(&o.Profile, "profile", false, "print where the time goes, stage by stage (it takes a little longer)")
	f.BoolVar(&o.LowMemory, "low-memory", false, "take little of a GPU's memory: hidden states elsewhere, fewer candidates at once, no rows sampled from the model; otherwise the same bytes, later")
	f.Float64Var(&o.gpuMemory, "gpu-memory", 0, "most of a GPU's memory to take, in GB (default: what is free)")
	f.BoolVar(&o.Overwrite, "overwrite", false, "replace files in the way that this job did not write, and delete other weights there")
	idleBools(f, "status-output", "fast-safetensors")
	idleInts(f, "hidden-state-offload-layers", "gpu-rows", "param-cache-size", "snapshot-interval")
	f.StringSliceVarP(&o.bits, "bits", "b", []string{"4.125"}, "target bits per weight; a list makes several models")
	f.StringVar(&o.Out, "compile-full", "", "folder of the finished model (-cf; default: the job's folder)")
	f.StringVarP(&o.Measurement, "measurement", "m", "", "use this measurement.json, ours or ExLlamaV2's, instead of measuring")
	f.TextVar(&o.HeadBits, "head-bits", convert.AutoHead, "`bits` of the head: auto, 2, 3, 4, 5, 6 or 8; auto chooses, the file as large as with 6 (-hb)")
	f.StringVar((*string)(&o.Quality), "quality", string(convert.Normal), "work that goes into the codes: fast, normal or best")
	f.StringVar((*string)(&o.Fold), "fold", string(convert.FoldAuto), "outliers to scale away first: auto, where measured errors say that it pays; norms, all; rotation, and rotate the residual stream; none")
	f.TextVar(&o.SyntheticRows, "synthetic-rows", convert.AutoRows, "`number` of calibration rows sampled from the model itself, beside the others; auto is some on a GPU, none on the CPU or of a model that ends its texts at once")
	o.ShardMB = 8192
	f.Var((*wholeNumber)(&o.ShardMB), "shard-size", "largest output file in MB, 0 for one file (-ss)")
}

// prepare checks what was typed.
func (o *convertOptions) prepare(c *cobra.Command, a *app) error {
	if err := o.check(c); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	if o.SaveMeasurement != "" && o.Out != "" {
		a.note("--output-measurement (-om) ends after measuring: --compile-full (-cf) has no effect")
		o.Out = ""
	}
	o.Work, o.Out, o.SaveMeasurement = settled(o.Work), settled(o.Out), settled(o.SaveMeasurement)
	var err error
	if o.Source, err = findModel(o.Source); err != nil {
		return err
	}
	if !(o.gpuMemory >= 0 && o.gpuMemory < 1e6) {
		return usage("--gpu-memory: %v, want GB, or 0 for what is free", o.gpuMemory)
	}
	o.Device, o.GPUMemory = a.devices, int(o.gpuMemory*1e9)
	a.hint = "; the same command continues the job in " + o.Work
	if o.Restart {
		a.hint = "; the same command without --restart continues the job in " + o.Work
	}
	return nil
}

// ended has the hint say of a run that ended with an error before it began again that it
// did not.
func (o *convertOptions) ended(a *app, err error) error {
	if o.Restart && errors.Is(err, convert.ErrUnchanged) {
		a.hint = "; nothing was deleted in " + o.Work
	}
	return err
}

// check refuses flags that are missing or do not go together.
func (o *convertOptions) check(c *cobra.Command) error {
	for _, need := range []struct{ name, value string }{{"--in-dir (-i)", o.Source}, {"--out-dir (-o)", o.Work}} {
		if need.value == "" {
			return usage("%s is missing; see exl2 %s --help", need.name, c.Name())
		}
	}
	if o.Data.Column != "" && o.Data.File == "" {
		return usage("--column is one of --cal-dataset (-c), which is missing; the built-in set has none")
	}
	if o.SaveMeasurement != "" && o.Measurement != "" {
		return usage("--output-measurement (-om) ends after measuring, so --measurement (-m) means nothing; leave one of them out")
	}
	return nil
}

// parseBits reads the list of targets.
func (o *convertOptions) parseBits() error {
	o.Targets = nil
	if len(o.bits) == 0 {
		return usage("--bits: no target; want bits per weight, as 4.0")
	}
	seen := map[float64]string{}
	for _, text := range o.bits {
		text = strings.TrimSpace(text)
		b, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(b) || math.IsInf(b, 0) || strings.ContainsAny(text, "xXpP_+-") {
			return usage("--bits: %q is not a number", text)
		}
		if first, ok := seen[b]; ok {
			return usage("--bits: %s stands there twice, as %s; give it once", text, first)
		}
		seen[b] = text
		o.Targets = append(o.Targets, convert.Target{Text: text, Bits: b})
	}
	return nil
}

func runConvert(c *cobra.Command, a *app, o *convertOptions) error {
	if o.Source == "" && o.Work != "" {
		if err := o.goOn(c, a); err != nil {
			return err
		}
	} else if err := o.parseBits(); err != nil {
		return err
	}
	if err := o.prepare(c, a); err != nil {
		return err
	}
	p, err := a.follow()
	if err != nil {
		return err
	}
	if o.measuresOnly() {
		return o.measure(c, a, p)
	}
	r, err := convert.Run(c.Context(), &o.Options, p)
	if err != nil {
		return o.ended(a, err)
	}
	p.Close()
	if !a.json && r.Profile != nil {
		printProfile(a.err, r.Profile)
	}
	return a.print(r, func(w io.Writer) { printReport(w, r) })
}

func printProfile(w io.Writer, stages []convert.Stage) {
	list := make([]profile.Stage, len(stages))
	for i, s := range stages {
		list[i] = profile.Stage(s)
	}
	profile.Print(w, list)
}

func printReport(w io.Writer, r *convert.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "bits\tdecoder bpw\thead bpw\tfile MB\tperplexity\tof source\t")
	for _, o := range r.Outputs {
		fmt.Fprintf(t, "%v\t%.4f\t%.3f\t%.2f\t%s\t%s\t\n", o.Bits, o.DecoderBPW, o.HeadBPW, float64(o.FileBytes)/1e6, o.Perplexity.Text(3), r.Reference.Text(3))
	}
	t.Flush()
	for _, o := range r.Outputs {
		fmt.Fprintln(w, o.Path)
	}
	printFolded(w, r.Folded)
	printCoverage(w, r.Experts)
	printGPUMemory(w, r.Memory)
	s := r.Seconds
	fmt.Fprintf(w, "%d rows of %d tokens; %.1f s measuring, %.3f s solving, %.1f s quantizing, %.1f s in all\n", r.Rows, r.Length, s.Measure, s.Solve, s.Quantize, s.Total)
}

// printFolded prints what of the source was scaled.
func printFolded(w io.Writer, f *convert.Folded) {
	if f != nil {
		fmt.Fprintln(w, f)
	}
}

// printGPUMemory prints what of a GPU's memory was planned and taken.
func printGPUMemory(w io.Writer, m *convert.Memory) {
	if m != nil && m.Peak > 0 {
		fmt.Fprintf(w, "%.1f GB of GPU memory planned, %.1f GB taken\n", float64(m.Planned())/1e9, float64(m.Peak)/1e9)
	}
}

// printCoverage prints how many calibration tokens experts have seen.
func printCoverage(w io.Writer, list []convert.Coverage) {
	if len(list) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "tokens seen by\texperts\tleast\tmedian\tmost\tcalibrated on all tokens")
	for _, c := range list {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\n", c.Key, c.Experts, c.Least, c.Median, c.Most, c.OnAll)
	}
	t.Flush()
}
