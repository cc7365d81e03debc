package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// onlyFlags refuses arguments: whoever gives one means a flag, or did not quote a value; hint says which.
func onlyFlags(hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if hint == "" {
			return fmt.Errorf("%q is too much: %s takes flags only", args[0], c.Name())
		}
		return fmt.Errorf("%q belongs to no flag: %s, and what has spaces is put in quotes", args[0], hint)
	}
}

// atMostOne refuses more arguments than one, which is what it is called.
func atMostOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%d arguments, %q and %q first: give one %s, in quotes if it has spaces", len(args), args[0], args[1], what)
		}
		return nil
	}
}

// one wants one argument.
func one(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("no %s is given", what)
		}
		return atMostOne(what)(c, args)
	}
}
