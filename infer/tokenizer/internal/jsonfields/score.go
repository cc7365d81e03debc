package jsonfields

import (
	"math"
	"strconv"
	"strings"
)

// parseScore reads a number as the tokenizers library does: serde_json, whose
// result is at times a neighbour of the float64 nearest to the number. Scores
// decide between ways to cut a word that are equally likely, so the last bit counts.
//
// Digits are an integer while they fit into 64 bits, then multiplied or divided
// by one power of ten.
func parseScore(text string) (float64, error) {
	exact, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, err
	}
	rest, negative := strings.CutPrefix(text, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(rest), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	power := 0
	if exponent != "" {
		if power, err = strconv.Atoi(exponent); err != nil {
			return exact, nil // beyond any float64: 0
		}
	}
	digits, full := uint64(0), false
	for _, c := range whole {
		if full = full || !push(&digits, c); full {
			power++
		}
	}
	for _, c := range fraction {
		if full = full || !push(&digits, c); full {
			break
		}
		power--
	}
	if fraction == "" && exponent == "" && !full {
		return exact, nil // an integer
	}
	value := scale(float64(digits), power)
	if negative {
		value = -value
	}
	return value, nil
}

// push appends a digit to a number, unless it then has more than 64 bits.
func push(n *uint64, digit rune) bool {
	d := uint64(digit - '0')
	if *n > (math.MaxUint64-d)/10 {
		return false
	}
	*n = *n*10 + d
	return true
}

// scale returns f times ten to a power.
func scale(f float64, power int) float64 {
	for power < -308 && f != 0 {
		f /= 1e308
		power += 308
	}
	switch {
	case f == 0:
		return 0
	case power < 0:
		return f / pow10(-power)
	}
	return f * pow10(power)
}

// pow10 returns the float64 nearest to a power of ten.
func pow10(n int) float64 {
	v, _ := strconv.ParseFloat("1e"+strconv.Itoa(n), 64)
	return v
}
