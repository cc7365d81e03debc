package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"exl2/convert"
)

// goesOn are the flags that a command without --in-dir may have.
var goesOn = map[string]bool{"out-dir": true, "resume": true, "overwrite": true}

// goOn takes the options of the job in --out-dir, where that is all that was
// typed.
func (o *convertOptions) goOn(c *cobra.Command, a *app) error {
	var other []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, none := f.Annotations[idle]; f.Changed && !none && !goesOn[f.Name] && c.InheritedFlags().Lookup(f.Name) == nil {
			other = append(other, "--"+f.Name)
		}
	})
	if len(other) > 0 {
		return usage("--in-dir (-i) is missing; only --out-dir alone goes on with a job as it was asked for, without %s", strings.Join(other, ", "))
	}
	asked, err := convert.Resume(o.Work)
	if errors.Is(err, fs.ErrNotExist) {
		return usage("--in-dir (-i) is missing, and %s holds no job to go on with; see exl2 %s --help", o.Work, c.Name())
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(asked.Source); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s, which the job in %s is to convert, is not there; if it was moved, give the job's whole command, and where it is now with --in-dir (-i)", asked.Source, o.Work)
	}
	overwrite := o.Overwrite
	o.Options = *asked
	o.Overwrite = overwrite
	what := "measuring"
	if !o.measuresOnly() {
		what = ""
		for _, t := range o.Targets {
			what += ", " + t.Text
		}
		what = what[2:] + " bits per weight"
	}
	a.note(fmt.Sprintf("going on with %s, %s", o.Source, what))
	return nil
}
