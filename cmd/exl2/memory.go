package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"exl2/infer"
)

// runMemory prints what running a model takes, which loading checks.
func runMemory(a *app, dir string, length int) error {
	o := infer.Options{Positions: length}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	parts, err := infer.Plan(dir, a.on(o))
	if err != nil {
		return err
	}
	r := struct {
		Length int          `json:"length"`
		Parts  []infer.Part `json:"devices"`
	}{length, parts}
	return a.print(r, func(w io.Writer) { printMemory(w, r.Parts) })
}

func printMemory(w io.Writer, parts []infer.Part) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "device\tlayers\tweights\tcache\tactivations\tworkspace\ttotal\tkept\tfree")
	for _, p := range parts {
		free := "-"
		if p.Free > 0 {
			free = megabytes(p.Free)
		}
		fmt.Fprintf(t, "%s\t%d-%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Device, p.First, p.First+p.Layers-1,
			megabytes(p.Weights), megabytes(p.Cache), megabytes(p.Activations), megabytes(p.Workspace), megabytes(p.Total()), megabytes(p.Kept), free)
	}
	t.Flush()
}

func megabytes(n int) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
