package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// pflag would read ExLlamaV2's -cf x as -c f, so an argument that equals one of
// its short names is replaced by the long name before parsing.
var (
	conversionNames = map[string]string{
		"-i": "--in-dir", "-o": "--out-dir", "-cf": "--compile-full", "-c": "--cal-dataset", "-b": "--bits", "-hb": "--head-bits",
		"-m": "--measurement", "-om": "--output-measurement", "-r": "--dataset-rows", "-l": "--length",
		"-mr": "--measurement-rows", "-ml": "--measurement-length", "-ss": "--shard-size", "-rs": "--rope-scale", "-ra": "--rope-alpha",
		"-res": "--resume", "-nr": "--restart", "-so": "--status-output", "-hsol": "--hidden-state-offload-layers", "-fst": "--fast-safetensors",
	}
	inferenceNames = map[string]string{
		"-m": "--model-dir", "-ed": "--eval-dataset", "-er": "--eval-rows", "-el": "--eval-length", "-p": "--prompt", "-t": "--tokens",
		"-l": "--length", "-rs": "--rope-scale", "-ra": "--rope-alpha", "-pnb": "--prompt-no-bos", "-temp": "--temperature",
		"-topk": "--top-k", "-topp": "--top-p", "-minp": "--min-p", "-repp": "--repetition-penalty",
	}
	shortNames = map[string]map[string]string{
		"convert": conversionNames, "measure": conversionNames, "ppl": inferenceNames, "infer": inferenceNames,
	}
)

// synonyms are long names that mean another flag.
var synonyms = map[string]string{"no-resume": "restart", "topk": "top-k", "topp": "top-p", "minp": "min-p", "repp": "repetition-penalty"}

// script names the command for one of ExLlamaV2's programs: with `alias python=exl2` a shell history
// runs as it stands.
func script(name string, args []string) string {
	switch filepath.Base(name) {
	case "convert.py":
		return "convert"
	case "test_inference.py":
		for _, a := range args {
			if a == "-ed" || a == "--eval_dataset" {
				return "ppl"
			}
		}
		return "infer"
	}
	return name
}

// translate replaces ExLlamaV2's programs and short names in a command line.
func translate(args []string) []string {
	var names map[string]string
	if len(args) > 0 {
		args = append([]string{script(args[0], args[1:])}, args[1:]...)
	}
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		switch {
		case names == nil:
			names = shortNames[a]
		case names[a] != "":
			out[i] = names[a]
		}
	}
	return out
}

// normalize accepts underscores for dashes in long names.
func normalize(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	if s := synonyms[name]; s != "" {
		name = s
	}
	return pflag.NormalizedName(name)
}
