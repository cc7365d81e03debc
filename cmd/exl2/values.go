package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A wholeNumber is the value of an int flag that may be typed as 8192.0.
type wholeNumber int

// Set reads a number without a fraction.
func (n *wholeNumber) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return strconv.ErrSyntax
	}
	*n = wholeNumber(v)
	return nil
}

func (n *wholeNumber) String() string { return strconv.Itoa(int(*n)) }

// Type is what help calls the value.
func (*wholeNumber) Type() string { return "int" }

// A decimal is the value of a flag for a whole number, which pflag reads as Go's literals
// are: 010 as eight. Python reads it as ten, and so does whoever types it.
type decimal struct{ pflag.Value }

// Set reads decimal digits, with a sign or without, or hexadecimal ones behind 0x.
func (d decimal) Set(text string) error {
	digits := strings.TrimLeft(text, "+-")
	if strings.HasPrefix(strings.ToLower(digits), "0x") {
		return d.Value.Set(text)
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return strconv.ErrSyntax
	}
	sign := text[:len(text)-len(digits)]
	return d.Value.Set(sign + cmp.Or(strings.TrimLeft(digits, "0"), "0"))
}

// decimalFlags has all whole numbers read as decimal.
func decimalFlags(f *pflag.FlagSet) {
	f.VisitAll(func(f *pflag.Flag) {
		if _, own := f.Value.(*wholeNumber); own {
			return
		}
		if t := f.Value.Type(); t == "int" || t == "uint64" {
			f.Value = decimal{f.Value}
		}
	})
}

// wanted says what a flag's value was to be, of one that could not be read as that.
func wanted(f *pflag.Flag, value any, err error) error {
	wants := map[string]string{"int": "a whole number", "uint64": "a whole number, 0 or more", "float64": "a number", "bool": "true or false", "intSlice": "whole numbers, as 1,2"}
	want, ok := wants[f.Value.Type()]
	if !ok {
		return err
	}
	if errors.Is(err, strconv.ErrRange) {
		want += " closer to 0"
	}
	return fmt.Errorf("%q, want %s", fmt.Sprint(value), want)
}

// badFlag says what is wrong with flags that cannot be read.
func badFlag(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	f := bad.GetFlag()
	return fmt.Errorf("--%s: %w", f.Name, wanted(f, bad.GetValue(), bad.Unwrap()))
}

// ropeFlags defines the flags of RoPE scaling.
func ropeFlags(f *pflag.FlagSet, scale, alpha *float64) {
	f.Float64Var(scale, "rope-scale", 1, "linear RoPE scaling: positions are divided by this factor, for models made so; it replaces a linear one of config.json (-rs)")
	f.Float64Var(alpha, "rope-alpha", 1, "NTK RoPE scaling: alpha, for models made so (-ra)")
}

// checkRope refuses factors that no model can have.
func checkRope(scale, alpha float64) error {
	for _, v := range []struct {
		name string
		x    float64
	}{{"rope-scale", scale}, {"rope-alpha", alpha}} {
		if !(v.x > 0 && v.x <= math.MaxFloat32) {
			return usage("--%s: %v, want a positive number", v.name, v.x)
		}
	}
	return nil
}

// within refuses a number of a flag that is out of bounds.
func within(flag string, n, least, most int) error {
	if n < least || n > most {
		return usage("--%s: %d, want %d to %d", flag, n, least, most)
	}
	return nil
}
