package convert

import (
	"encoding/json"
	"fmt"
	"math"
)

// A Perplexity is the exponential of a mean negative log-likelihood: infinite where a
// text has no probability, or next to none, which JSON has as null.
type Perplexity float64

// None reports whether the text has no probability.
func (p Perplexity) None() bool { return math.IsInf(float64(p), 1) }

// MarshalJSON returns a number, or null where there is none.
func (p Perplexity) MarshalJSON() ([]byte, error) {
	if p.None() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(p))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Perplexity) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*p = Perplexity(math.Inf(1))
		return nil
	}
	return json.Unmarshal(data, (*float64)(p))
}

// longest is from where on digits behind the point say nothing.
const longest = 1e6

// Text returns p with so many decimals, large numbers in exponent form, "infinite" where
// the text has no probability.
func (p Perplexity) Text(decimals int) string {
	switch {
	case p.None():
		return "infinite"
	case p >= longest:
		return fmt.Sprintf("%.*e", decimals, float64(p))
	}
	return fmt.Sprintf("%.*f", decimals, float64(p))
}
