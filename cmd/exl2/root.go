package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"exl2/internal/devices"
	"exl2/internal/term"
)

// app is what the commands share.
type app struct {
	out io.Writer
	err *os.File

	json     bool
	devices  string
	split    string // ExLlamaV2's --gpu-split
	keep     string // see infer.Options.KeepDecoded
	config   string
	progress string

	said   sync.Map // notes
	hint   string   // added to the message when interrupted
	closes []func()

	interrupts  interrupts
	interrupted func() error // the error of a program that was
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "exl2",
		Short: "Make and run EXL2 models",
		Long: `exl2 makes EXL2 models of Hugging Face models and runs them: one program, no
Python. It reads and writes the files that ExLlamaV2 does, and understands its
command lines: convert.py is exl2 convert, test_inference.py is exl2 ppl with -ed,
exl2 infer with -p, and exl2 bench with -s or -ps.

A first session, with the folder of a model (config.json, *.safetensors, tokenizer):

  exl2 inspect MODEL                               what it is
  exl2 convert -i MODEL -o WORK -cf OUT -b 4.0     make it smaller
  exl2 ppl -m OUT -ed text.txt --reference MODEL   what that has cost
  exl2 infer -m OUT -p "Once upon a time"          run it
  exl2 bench -m OUT                                how fast it is

MODEL may also be org/name, which is looked up in the local Hugging Face cache.
Nothing is ever downloaded.

Every flag can also be set as EXL2_<FLAG> in the environment (EXL2_HEAD_BITS=8)
and in a file given with --config (YAML, TOML or JSON, one key a flag).`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          checked(cobra.NoArgs),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := a.configure(c); err != nil {
				return err
			}
			if err := noEmptyNames(c.Flags()); err != nil {
				return err
			}
			if !slices.Contains(term.Kinds, a.progress) {
				return usage("--progress: %q, want one of %v", a.progress, term.Kinds)
			}
			a.noteIdle(c)
			if err := a.splitDevices(); err != nil {
				return err
			}
			return devices.Check(a.devices)
		},
	}
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print the result as one JSON object on stdout")
	f.StringVar(&a.devices, "devices", "", "where to compute: "+devices.Names)
	f.StringVar(&a.config, "config", "", "file with values for flags")
	f.StringVar(&a.progress, "progress", "auto", "progress on stderr: "+strings.Join(term.Kinds, ", "))
	root.SetGlobalNormalizationFunc(normalize)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w; see %s --help", badFlag(err), c.CommandPath())
	})
	root.SetUsageFunc(usageWithExitCodes(root.UsageFunc()))
	for _, c := range []*cobra.Command{
		newMeasureCommand(a), newConvertCommand(a), newPPLCommand(a), newInferCommand(a), newBenchCommand(a), newInspectCommand(a), newSynthCommand(a), newVersionCommand(a),
	} {
		c.Args = checked(c.Args)
		decimalFlags(c.Flags())
		root.AddCommand(c)
	}
	return root
}

// usageWithExitCodes adds the exit codes to a command's usage. (A usage template
// would do, but makes the program a third larger: templates call methods by name,
// which keeps the linker from leaving any out.)
func usageWithExitCodes(show func(*cobra.Command) error) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		if err := show(c); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.OutOrStderr(), "\n%s\n", exitCodesHelp)
		return err
	}
}

// checked makes complaints about arguments usage errors.
func checked(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		if err := args(c, list); err != nil {
			return usage("%w; see %s --help", err, c.CommandPath())
		}
		return nil
	}
}

// strict has cobra's own commands complain about what they do not know, where they
// would show help and be content.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args = checked(c.Args)
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			for _, shell := range c.Commands() {
				shell.Args = checked(shell.Args)
			}
		case "help":
			c.Args = checked(func(c *cobra.Command, list []string) error {
				_, rest, err := c.Root().Find(list)
				if err == nil && len(rest) > 0 {
					err = fmt.Errorf("no help about %q", rest[0])
				}
				return err
			})
		}
	}
}

// print writes a result: as JSON if that was asked for, else by text.
func (a *app) print(result any, text func(w io.Writer)) error {
	if !a.json {
		text(a.out)
		return nil
	}
	e := json.NewEncoder(a.out)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(result)
}

// follow returns the progress that the flags ask for.
func (a *app) follow() (term.Progress, error) {
	p, err := term.New(a.progress, a.err)
	if err != nil {
		return nil, usageError{err}
	}
	a.closes = append(a.closes, p.Close)
	return p, nil
}

// close ends what the command has opened, the last first.
func (a *app) close() {
	for i := len(a.closes) - 1; i >= 0; i-- {
		a.closes[i]()
	}
}
