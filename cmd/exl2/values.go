package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"
)

// A wholeNumber is the value of an int flag that may be typed as 8192.0.
type wholeNumber int

// Set reads a number without a fraction.
func (n *wholeNumber) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return fmt.Errorf("%q is not a whole number", text)
	}
	*n = wholeNumber(v)
	return nil
}

func (n *wholeNumber) String() string { return strconv.Itoa(int(*n)) }

// Type is what help calls the value.
func (*wholeNumber) Type() string { return "int" }

// ropeFlags defines the flags of RoPE scaling.
func ropeFlags(f *pflag.FlagSet, scale, alpha *float64) {
	f.Float64Var(scale, "rope-scale", 1, "linear RoPE scaling: positions are divided by this factor, for models made so (-rs)")
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
