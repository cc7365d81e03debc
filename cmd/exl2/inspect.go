package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"exl2/internal/model"
	"exl2/internal/safetensors"
)

func newInspectCommand(a *app) *cobra.Command {
	o := inspectOptions{}
	c := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show what a model is made of",
		Long: `inspect shows a model's architecture, its size, and how each matrix is stored,
and fails with a list where config.json and the weights disagree.
--plot draws the bits of each matrix as a heat map: layers across, matrices down,
those of a layer's experts as one. --memory says instead what
running it takes on each of --devices, for a context of --length positions.
--architectures lists those that are known, without a model: how much of a
checkpoint is run, and whether logits are checked against those of transformers.`,
		Example: `  exl2 inspect llama-4.0bpw
  exl2 inspect llama-4.0bpw --plot bits.svg
  exl2 inspect llama-4.0bpw --memory --length 8192 --devices 0,1
  exl2 inspect --architectures`,
		Args: atMostOne("MODEL"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(len(args)); err != nil {
				return err
			}
			if o.architectures {
				return printArchitectures(a)
			}
			return runInspect(a, args[0], o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.plot, "plot", "", "draw a heat map of bits by layer and matrix to this file (.svg, .png or .pdf)")
	f.BoolVar(&o.architectures, "architectures", false, "list the architectures that are known")
	f.BoolVar(&o.memory, "memory", false, "say what memory running the model takes")
	f.IntVarP(&o.length, "length", "l", 2048, "positions of the context, with --memory")
	return c
}

type inspectOptions struct {
	plot   string
	memory bool
	length int

	architectures bool
}

// check refuses flags that do not go together, and with so many models.
func (o *inspectOptions) check(models int) error {
	switch {
	case o.architectures && models > 0:
		return usage("--architectures lists what is known, without a model; leave one of them out")
	case !o.architectures && models == 0:
		return usage("MODEL is missing; see exl2 inspect --help")
	case o.architectures && (o.memory || o.plot != ""):
		return usage("--architectures lists what is known, without a model; leave out --memory and --plot")
	case o.memory && o.plot != "":
		return usage("--memory and --plot are both given; give them one after the other")
	}
	return nil
}

// inspection is the JSON of inspect.
type inspection struct {
	Architecture string          `json:"architecture"`
	Quantization string          `json:"quantization,omitempty"` // by another program
	Parameters   int             `json:"parameters"`
	DecoderBPW   float64         `json:"decoder_bpw"`
	HeadBPW      float64         `json:"head_bpw"`
	FileBytes    int64           `json:"file_bytes"`
	Matrices     []inspectMatrix `json:"matrices"`

	Disagreements []string `json:"disagreements,omitempty"` // between config.json and the weights
}

type inspectMatrix struct {
	Key string  `json:"key"`
	In  int     `json:"in"`
	Out int     `json:"out"`
	BPW float64 `json:"bpw"`
	Mix string  `json:"mix"` // as in measurement files, another program's form, or the type of a matrix that is not quantized
}

func runInspect(a *app, name string, o inspectOptions) error {
	if o.plot != "" {
		if err := checkPicture(o.plot); err != nil {
			return err
		}
	}
	dir, err := findModel(name)
	if err != nil {
		return err
	}
	if o.memory {
		return runMemory(a, dir, o.length)
	}
	l, files, err := model.Open(dir)
	if err != nil {
		return err
	}
	defer files.Close()
	for _, w := range l.NotKnown() { // of the rest, disagreements speak
		a.note(w)
	}
	r, err := inspect(l, files)
	if err != nil {
		return err
	}
	if r.Disagreements, err = disagreements(dir, l, files); err != nil {
		return err
	}
	if err := a.print(r, func(w io.Writer) { printInspection(w, r) }); err != nil {
		return err
	}
	if o.plot != "" {
		if err := plotBits(o.plot, r, l.Spec.Layers); err != nil {
			return err
		}
	}
	if n := len(r.Disagreements); n > 0 {
		return fmt.Errorf("model %s: config.json and the weights disagree (%d times): %s", dir, n, strings.Join(r.Disagreements, "; "))
	}
	return nil
}

func inspect(l *model.Loader, files *safetensors.Set) (*inspection, error) {
	r := &inspection{Architecture: l.Spec.Arch}
	if l.Scheme != nil {
		r.Quantization = l.Scheme.String()
	}
	var err error
	if r.FileBytes, err = fileBytes(files); err != nil {
		return nil, err
	}
	bits, weights := 0, 0
	for _, module := range l.Layout {
		for _, s := range module.Linears {
			m, size, err := inspectLinear(l, s)
			if err != nil {
				continue // one of the disagreements
			}
			r.Matrices = append(r.Matrices, *m)
			r.Parameters += s.In * s.Out
			switch {
			case module.Kind == model.Head:
				r.HeadBPW = m.BPW
			case s.Packable() || !l.Quantized(): // as convert counts, which a target's bits are for
				bits, weights = bits+size, weights+s.In*s.Out
			}
		}
	}
	r.DecoderBPW = float64(bits) / float64(max(1, weights))
	r.Parameters += others(l)
	return r, nil
}

// inspectLinear describes one matrix and returns its size in bits.
func inspectLinear(l *model.Loader, s model.LinearSpec) (*inspectMatrix, int, error) {
	m := &inspectMatrix{Key: s.Name, In: s.In, Out: s.Out}
	size := 0
	if q, err := l.Matrix(s); err != nil {
		return nil, 0, err
	} else if q != nil {
		size, m.Mix = q.Bits(), q.Recipe().String()
	} else if bits, form := l.Stored(s); bits > 0 {
		size, m.Mix = int(math.Round(bits*float64(s.In*s.Out))), form
	} else {
		name := s.Name + ".weight"
		if s.Name == l.Spec.Names.Head && l.Spec.Tied {
			name = l.Spec.Names.Embed + ".weight"
		}
		t, err := l.Files.Get(name)
		if err != nil {
			return nil, 0, err
		}
		size, m.Mix = 8*len(t.Data), t.DType
	}
	m.BPW = float64(size) / float64(s.In) / float64(s.Out)
	return m, size, nil
}

// others counts the parameters outside of matrices: embedding, norms, biases.
// A tied head is the embedding.
func others(l *model.Loader) int {
	n := 0
	linear := map[string]bool{}
	for _, m := range l.Layout {
		for _, s := range m.Linears {
			linear[s.Name] = true
		}
	}
	for _, name := range l.Files.Names() {
		info, _ := l.Files.Info(name)
		if !floating[info.DType] || isPartOf(name, linear) {
			continue
		}
		count := 1
		for _, d := range info.Shape {
			count *= d
		}
		n += count
	}
	if l.Spec.Tied {
		n -= l.Spec.Vocab * l.Spec.Hidden
	}
	return n
}

var floating = map[string]bool{"F16": true, "BF16": true, "F32": true}

// isPartOf reports whether a tensor holds a matrix's weights.
func isPartOf(name string, linear map[string]bool) bool {
	for i := len(name) - 1; i > 0; i-- {
		if name[i] == '.' {
			return linear[name[:i]] && name[i+1:] != "bias"
		}
	}
	return false
}

func printInspection(w io.Writer, r *inspection) {
	fmt.Fprintf(w, "%s, %.2f million parameters, %.2f MB\n", r.Architecture, float64(r.Parameters)/1e6, float64(r.FileBytes)/1e6)
	if r.Quantization != "" {
		fmt.Fprintln(w, "quantized by another program:", r.Quantization)
	}
	fmt.Fprintf(w, "decoder %.4f bits per weight, head %.4f\n\n", r.DecoderBPW, r.HeadBPW)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "matrix\tin\tout\tbpw\tmix")
	for _, m := range r.Matrices {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.3f\t%s\n", m.Key, m.In, m.Out, m.BPW, m.Mix)
	}
	t.Flush()
}
