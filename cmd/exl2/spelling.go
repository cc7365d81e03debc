package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Names that ExLlamaV2's programs have behind one dash. pflag would read -cf x
// as -c f, and -ps as -p s.
var (
	conversionNames = map[string]string{
		"i": "in-dir", "o": "out-dir", "cf": "compile-full", "c": "cal-dataset", "b": "bits", "hb": "head-bits",
		"m": "measurement", "om": "output-measurement", "r": "dataset-rows", "l": "length",
		"mr": "measurement-rows", "ml": "measurement-length", "ss": "shard-size", "rs": "rope-scale", "ra": "rope-alpha",
		"res": "resume", "nr": "restart", "so": "status-output", "hsol": "hidden-state-offload-layers", "fst": "fast-safetensors",
		"gr": "gpu-rows", "pcs": "param-cache-size", "si": "snapshot-interval",
	}
	inferenceNames = map[string]string{
		"m": "model-dir", "ed": "eval-dataset", "er": "eval-rows", "el": "eval-length", "eb": "bos", "p": "prompt", "t": "tokens",
		"l": "length", "rs": "rope-scale", "ra": "rope-alpha", "pnb": "prompt-no-bos", "temp": "temperature",
		"topk": "top-k", "topp": "top-p", "minp": "min-p", "repp": "repetition-penalty",
		"gs": "gpu-split", "nfa": "no-flash-attn", "nxf": "no-xformers", "nsdpa": "no-sdpa", "ng": "no-graphs", "nwu": "no-warmup",
		"lm": "low-mem", "fst": "fast-safetensors", "ic": "ignore-compatibility", "sl": "stream-layers", "chunk": "chunk-size", "mol": "max-output-len",
		"tp": "tensor-parallel", "et": "eval-token", "e8": "eval-token-8bit", "eq4": "eval-token-q4", "eq6": "eval-token-q6", "eq8": "eval-token-q8",
		"ecl": "eval-context-lens", "sp": "standard-perplexity", "ps": "prompt-speed", "s": "speed", "mix": "mix-layers", "rr": "rank-reduce",
		"ept": "experts-per-token", "lq4": "load-q4", "ry": "rope-yarn", "ngram": "ngram", "dm": "draft-model-dir", "dn": "num-draft-tokens",
	}
	// Of test_inference.py's, those that bench does not use otherwise.
	speedNames = without(inferenceNames, "p", "t", "l", "eb")

	shortNames = map[string]map[string]string{
		"convert": conversionNames, "measure": conversionNames, "ppl": inferenceNames, "infer": inferenceNames, "bench": speedNames,
	}
)

// missing are ExLlamaV2's flags that are not there, and what to do instead. A
// command that has a flag of the name takes it.
var missing = map[string]string{
	"tensor-parallel":     "give --devices 0,1, which shares the layers among GPUs",
	"eval-token":          "leave it out: token by token the perplexity is the same, but for rounding",
	"eval-token-8bit":     "leave it out: the cache is not quantized",
	"eval-token-q4":       "leave it out: the cache is not quantized",
	"eval-token-q6":       "leave it out: the cache is not quantized",
	"eval-token-q8":       "leave it out: the cache is not quantized",
	"eval-context-lens":   "run exl2 ppl once for every length, with -el",
	"standard-perplexity": "nothing is downloaded; give the test part of WikiText-2 with -ed, and -el",
	"prompt-speed":        "use exl2 bench -m MODEL -p 128,512,2048 -n 0",
	"speed":               "use exl2 bench -m MODEL -p 0 -n 128 -d 0,1024,2048",
	"mix-layers":          "leave it out: a model's layers come from its own folder",
	"rank-reduce":         "leave it out: weights are used as they are stored",
	"experts-per-token":   "leave it out: config.json says how many experts a token has",
	"load-q4":             "leave it out, or convert the model: weights are used as they are stored",
	"rope-yarn":           "write it into rope_scaling of config.json",
}

// synonyms are long names that mean another flag.
var synonyms = map[string]string{
	"no-resume": "restart", "topk": "top-k", "topp": "top-p", "minp": "min-p", "repp": "repetition-penalty", "eval-bos": "bos",
}

// without returns a copy of a table that lacks some names.
func without(names map[string]string, left ...string) map[string]string {
	out := map[string]string{}
	for short, long := range names {
		out[short] = long
	}
	for _, short := range left {
		delete(out, short)
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

// translate rewrites a command line in ExLlamaV2's spelling, program and flags,
// as pflag reads it. Values are left alone.
func translate(root *cobra.Command, args []string) ([]string, error) {
	args, err := script(args)
	if err != nil {
		return nil, err
	}
	s := speller{command: root}
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(out, args[i:]...), nil
		}
		if len(a) < 2 || a[0] != '-' {
			if s.command == root && !s.enter(a) { // completion, or unknown
				return append(out, args[i:]...), nil
			}
			out = append(out, a)
			continue
		}
		spelled, flag, err := s.spell(a)
		if err != nil {
			return nil, err
		}
		out = append(out, spelled)
		if flag == nil || strings.Contains(spelled, "=") || i+1 == len(args) {
			continue
		}
		if flag.NoOptDefVal != "" {
			if flag.Value.Type() == "int" && isWhole(args[i+1]) {
				i++
				out[len(out)-1] += "=" + args[i]
			}
			continue
		}
		i++
		if s.knows(args[i]) {
			return nil, usage("%s wants a value and is followed by the flag %s; if that is meant, write %s=%s", a, args[i], spelled, args[i])
		}
		out = append(out, args[i])
	}
	return out, nil
}

func isWhole(value string) bool {
	_, err := strconv.Atoi(value)
	return err == nil
}

// A speller knows the flags of a command, and ExLlamaV2's names for them.
type speller struct {
	command *cobra.Command
	names   map[string]string
}

// enter goes from the root to one of its commands and reports whether there is
// one of the name.
func (s *speller) enter(name string) bool {
	for _, c := range s.command.Commands() {
		if c.Name() == name {
			s.command, s.names = c, shortNames[name]
			return true
		}
	}
	return false
}

// lookup returns the flag of a long name, or nil.
func (s *speller) lookup(name string) *pflag.Flag {
	name = string(normalize(nil, name))
	if f := s.command.Flags().Lookup(name); f != nil {
		return f
	}
	return s.command.Root().PersistentFlags().Lookup(name)
}

// spell returns how pflag spells an argument that begins with a dash, and the
// flag whose value comes next, nil if none does or there is no such flag.
func (s *speller) spell(arg string) (string, *pflag.Flag, error) {
	name, value, assigned := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	long := name
	if !strings.HasPrefix(arg, "--") {
		if long = s.names[name]; long == "" {
			return s.short(arg, name)
		}
	}
	flag := s.lookup(long)
	if why := missing[string(normalize(nil, long))]; why != "" && flag == nil {
		return "", nil, usage("%s is not there; %s", arg, why)
	}
	spelled := "--" + long
	if assigned {
		spelled += "=" + value
	}
	return spelled, flag, nil
}

// short is spell for one dash and a name that is none of ExLlamaV2's: pflag's
// short flags have one letter, and what is joined to it is a value only if it
// does not look like a longer name.
func (s *speller) short(arg, name string) (string, *pflag.Flag, error) {
	if len(name) > 1 && isLetter(name[0]) && isLetter(name[1]) {
		return "", nil, usage("unknown flag: %s (a value stands apart, as in -%c %s); see %s --help", arg, name[0], name[1:], s.command.CommandPath())
	}
	if len(arg) > 2 {
		return arg, nil, nil
	}
	return arg, s.command.Flags().ShorthandLookup(name), nil
}

// knows reports whether an argument is one of the command's flags.
func (s *speller) knows(arg string) bool {
	if long, ok := strings.CutPrefix(arg, "--"); ok {
		return s.lookup(long) != nil
	}
	short, ok := strings.CutPrefix(arg, "-")
	return ok && (s.names[short] != "" || len(short) == 1 && s.command.Flags().ShorthandLookup(short) != nil)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
