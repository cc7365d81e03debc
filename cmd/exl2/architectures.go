package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"exl2/internal/arch"
)

// knownArchitecture is an entry of the JSON of inspect --architectures.
type knownArchitecture struct {
	Name  string     `json:"architecture"`
	Type  string     `json:"model_type,omitempty"` // empty for a further spelling of another's name
	Scope arch.Scope `json:"scope"`
	Proof arch.Proof `json:"proof"`
}

// printArchitectures prints the table of architectures.
func printArchitectures(a *app) error {
	var list []knownArchitecture
	for _, e := range arch.Known() {
		list = append(list, knownArchitecture(e))
	}
	return a.print(struct {
		Architectures []knownArchitecture `json:"architectures"`
	}{list}, func(w io.Writer) {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "architecture\tmodel_type\tscope\tproof")
		for _, e := range list {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", e.Name, e.Type, e.Scope, e.Proof)
		}
		t.Flush()
		fmt.Fprintln(w, "\ngolden: a random model's logits are compared with those of transformers; description: written from what is published")
	})
}
