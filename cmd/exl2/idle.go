package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"exl2/infer"
)

// idle marks flags of ExLlamaV2's that are accepted and have no effect.
const idle = "idle"

// idleBools and idleInts define flags that have no effect here.
func idleBools(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f.Bool(name, false, "without effect, accepted for ExLlamaV2's sake")
		hideIdle(f, name)
	}
}

func idleInts(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f.Int(name, 0, "without effect, accepted for ExLlamaV2's sake")
		hideIdle(f, name)
	}
}

func hideIdle(f *pflag.FlagSet, name string) {
	flag := f.Lookup(name)
	flag.Hidden = true
	flag.Annotations = map[string][]string{idle: nil}
}

// runFlags defines the flags for running models: ours, and ExLlamaV2's that mean
// --devices, or nothing.
func (a *app) runFlags(f *pflag.FlagSet) {
	f.StringVar(&a.keep, "keep-decoded", infer.KeepDecoded[0], "weights that a GPU decodes for a prompt stay decoded for later ones: auto (if over half of its free memory is left), on or off")
	f.StringVar(&a.split, "gpu-split", "", `ExLlamaV2's --devices: auto, or gigabytes for every GPU, of which those with some are used (-gs)`)
	f.Lookup("gpu-split").Hidden = true
	idleBools(f, "no-flash-attn", "no-xformers", "no-sdpa", "no-graphs", "no-warmup", "low-mem", "fast-safetensors", "ignore-compatibility", "stream-layers")
	idleInts(f, "chunk-size", "max-output-len")
}

// noteIdle says which of the flags that were typed have no effect.
func (a *app) noteIdle(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[idle]; ok && f.Changed {
			a.note("--" + f.Name + " has no effect here")
		}
	})
}
