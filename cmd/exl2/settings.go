package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"exl2/internal/ordered"
	"exl2/internal/regular"
)

// configure gives flags that were not typed their values from the environment
// and the configuration file.
func (a *app) configure(c *cobra.Command) error {
	if err := noJSON(c); err != nil {
		return err
	}
	v := viper.New()
	v.SetEnvPrefix(environment)
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	a.noteUnknown(c, os.Environ())
	if a.config == "" {
		a.config = os.Getenv(environment + "_CONFIG")
	}
	if a.config != "" {
		if err := readSettings(v, c, a.config); err != nil {
			if errors.Is(err, context.Canceled) {
				return err
			}
			return usage("--config: %w", err)
		}
	}
	var failed error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "config" || f.Name == "help" || failed != nil || !v.IsSet(f.Name) {
			return
		}
		if err := assign(f, v.Get(f.Name)); err != nil {
			failed = usage("--%s, from the environment or --config: %w", f.Name, err)
		}
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[configured] = nil
	})
	return failed
}

// configured marks flags whose values are from the environment or the configuration file.
const configured = "configured"

// wasTyped reports whether a flag was typed.
func wasTyped(f *pflag.FlagSet, name string) bool {
	flag := f.Lookup(name)
	_, other := flag.Annotations[configured]
	return flag.Changed && !other
}

// environment is what names of flags begin with in the environment, and notFlags what else does:
// settings of packages, and of tests.
const environment = "EXL2"

var notFlags = []string{"BLAS", "SIMD", "NO_CUBLAS", "GOLDEN", "BENCH", "EMULATED", "TEST_CRASH"}

// noteUnknown tells of names in the environment that begin as those of flags do, and that no flag has.
func (a *app) noteUnknown(c *cobra.Command, environ []string) {
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(name, environment+"_")
		if !ok || value == "" || slices.Contains(notFlags, rest) {
			continue
		}
		typed := strings.ReplaceAll(strings.ToLower(rest), "_", "-")
		switch flag := string(normalize(nil, typed)); {
		case !isFlag(c, flag):
			a.note(name + " in the environment is not used: no flag is called --" + typed)
		case flag != typed:
			a.note(fmt.Sprintf("%s in the environment is not used: the flag's name there is %s_%s", name, environment, strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))))
		}
	}
}

// noJSON refuses --json of commands that print no result.
func noJSON(c *cobra.Command) error {
	switch f := c.Flags(); {
	case !f.Changed("json"):
	case c.HasParent() && c.Parent().Name() == "completion":
		return usage("--json: a script for a shell is no JSON; leave it out")
	case !c.HasParent() || c.Name() == "help" || c.Name() == "completion":
		return usage("--json: help is no JSON; leave it out, or name a command")
	}
	return nil
}

// maxSettings bounds a configuration file.
const maxSettings = 16 << 20

// readSettings gives v what a configuration file has, by the names of flags; what is
// typed, or in the environment, comes before that.
func readSettings(v *viper.Viper, c *cobra.Command, path string) error {
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	decoder, err := viper.NewCodecRegistry().Decoder(format)
	if err != nil || !slices.Contains([]string{"json", "yaml", "yml", "toml"}, format) { // viper knows .env, too
		return fmt.Errorf("%s: want a name that ends in .json, .yaml or .toml", path)
	}
	data, err := regular.Await(c.Context(), func() ([]byte, error) { return regular.ReadFile(path, maxSettings) })
	if err != nil {
		return err
	}
	read, err := decodeSettings(decoder, data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	file := viper.New()
	if err := file.MergeConfigMap(read); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	keys := file.AllKeys()
	slices.Sort(keys)
	spelled := map[string]string{}
	for _, key := range keys {
		name := string(normalize(nil, key))
		if name == "config" || name == "help" || !isFlag(c, name) { // these two are typed only
			return fmt.Errorf("%s: no flag is called %q", path, key)
		}
		if other, ok := spelled[name]; ok {
			return fmt.Errorf("%s: %s and %s are the same flag; give it once", path, other, key)
		}
		spelled[name] = key
		value := file.Get(key)
		if value == nil {
			return fmt.Errorf("%s: %s has no value; give one, or leave it out", path, key)
		}
		v.SetDefault(name, value)
	}
	return nil
}

// decodeSettings reads the keys of a configuration file, and refuses one that stands there twice,
// be it in other letters: viper would take either.
func decodeSettings(decoder viper.Decoder, data []byte) (map[string]any, error) {
	data = bytes.TrimPrefix(data, []byte(regular.ByteOrderMark))
	read := map[string]any{}
	if err := decoder.Decode(data, read); err != nil {
		return nil, err
	}
	if json.Valid(data) { // of a key of JSON that stands there twice, the decoder has the last
		if err := json.Unmarshal(data, &ordered.Object{}); err != nil {
			return nil, err
		}
	}
	spelled := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(read)) {
		lower := strings.ToLower(key)
		if other, ok := spelled[lower]; ok {
			return nil, fmt.Errorf("%s and %s are the same flag; give it once", other, key)
		}
		spelled[lower] = key
	}
	return read, nil
}

// isFlag reports whether any command has a flag of the name.
func isFlag(c *cobra.Command, name string) bool {
	return slices.ContainsFunc(append(c.Root().Commands(), c.Root()), func(other *cobra.Command) bool {
		return other.Flags().Lookup(name) != nil || other.PersistentFlags().Lookup(name) != nil
	})
}

// assign gives a flag a configuration's value: what would be typed, or a list.
func assign(f *pflag.Flag, value any) error {
	f.Changed = true
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var parts []string
	for _, e := range list {
		text, err := typed(e)
		if err != nil {
			return err
		}
		parts = append(parts, text)
	}
	var err error
	if s, isList := f.Value.(pflag.SliceValue); isList && ok {
		err = s.Replace(parts)
	} else {
		err = f.Value.Set(strings.Join(parts, ","))
	}
	if err != nil {
		return wanted(f, strings.Join(parts, ","), err)
	}
	return nil
}

// mostExact is from where on JSON's numbers, which are read as float64, are not exact.
const mostExact = 1 << 53

// typed returns a value as it would be typed. JSON has whole numbers as float64.
func typed(value any) (string, error) {
	switch v := value.(type) {
	case float64:
		if v != math.Trunc(v) || math.IsInf(v, 0) {
			break
		}
		if math.Abs(v) >= mostExact {
			return "", fmt.Errorf("%v is more than a number of JSON holds exactly; put it in quotes", v)
		}
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case map[string]any, []any:
		return "", errors.New("a value, or a list of values, is wanted")
	}
	return fmt.Sprint(value), nil
}
