package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagsOnly refuses arguments of a command whose values all have flags.
func flagsOnly(c *cobra.Command, list []string) error {
	if len(list) == 0 {
		return nil
	}
	for _, name := range []string{"in-dir", "model-dir"} {
		if f := c.Flags().Lookup(name); f != nil {
			return fmt.Errorf("%q stands alone: every value has a flag in front of it, as the model in -%s MODEL, lists have no blanks, and texts with some are in quotes", list[0], f.Shorthand)
		}
	}
	return fmt.Errorf("%q stands alone: %s has no arguments", list[0], c.CommandPath())
}

// atMostOne refuses a second argument; what is what the first is.
func atMostOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, list []string) error {
		if len(list) > 1 {
			return fmt.Errorf("want one %s, have %d: %q", what, len(list), list)
		}
		return nil
	}
}

// nameFlags are those whose values are names, and that may be left out. An empty name is
// what a shell makes of a variable that is not set.
var nameFlags = []string{
	"config", "cal-dataset", "column", "measurement", "compile-full", "output-measurement",
	"reference", "plot", "points", "tools", "tokenizer", "synthetic",
}

// noEmptyNames refuses flags that were given an empty name, as if they had been left out.
func noEmptyNames(f *pflag.FlagSet) error {
	for _, name := range nameFlags {
		if f := f.Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return usage("--%s: empty name; give one, or leave the flag out", name)
		}
	}
	return nil
}
