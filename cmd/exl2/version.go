package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"exl2/cuda/kernelfile"
	"exl2/internal/devices"
)

// version is the program's; CHANGELOG.md has one heading for each.
const version = "0.1.0"

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show version and what computes",
		Long:    `version shows the program's version, and which processors and libraries it computes with.`,
		Example: `  exl2 version`,
		Args:    flagsOnly,
		RunE:    func(*cobra.Command, []string) error { return runVersion(a) },
	}
}

type versionResult struct {
	Version string   `json:"version"`
	Go      string   `json:"go"`
	Commit  string   `json:"commit,omitempty"`
	Cores   int      `json:"cores"`
	Devices []string `json:"devices"`
	Kernels []string `json:"kernels"` // what GPU code is built for
	NoGPU   string   `json:"no_gpu,omitempty"`
}

func runVersion(a *app) error {
	r := versionResult{Version: version, Go: runtime.Version(), Cores: runtime.GOMAXPROCS(0), Kernels: kernelfile.Targets}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				r.Commit = s.Value
			}
		}
	}
	gpus, err := devices.GPUs()
	if err != nil {
		r.NoGPU = err.Error()
	}
	defer gpus.Close()
	cpu, err := devices.CPU()
	if err != nil {
		return err
	}
	defer cpu.Close()
	for _, d := range append(gpus, cpu...) {
		r.Devices = append(r.Devices, d.Name())
	}
	return a.print(r, func(w io.Writer) { printVersion(w, r) })
}

func printVersion(w io.Writer, r versionResult) {
	fmt.Fprintf(w, "exl2 %s (%s, %d cores)\n", r.Version, r.Go, r.Cores)
	for _, d := range r.Devices {
		fmt.Fprintln(w, d)
	}
	if r.NoGPU != "" {
		fmt.Fprintln(w, r.NoGPU)
	}
	fmt.Fprintln(w, "GPU kernels for", strings.Join(r.Kernels, " "))
}
