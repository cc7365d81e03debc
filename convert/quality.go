package convert

import (
	"fmt"
	"slices"
	"strings"
)

// Quality says how much work goes into the codes of a given size. "" is Normal.
type Quality string

// The qualities, by rising work.
const (
	Fast   Quality = "fast"   // error feedback only
	Normal Quality = "normal" // and descent, and columns that make up for each other's errors
	Best   Quality = "best"   // and training with the source as the teacher
)

// Qualities lists the values that Options.Quality can have.
var Qualities = []Quality{Fast, Normal, Best}

func (q Quality) check() error { return oneOf("quality", q, Qualities) }

// oneOf refuses a value of an option that is neither known nor empty.
func oneOf[T ~string](option string, value T, known []T) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	var names []string
	for _, k := range known {
		names = append(names, string(k))
	}
	return fmt.Errorf("%s: %q, want one of %s", option, string(value), strings.Join(names, ", "))
}

// String returns the name.
func (q Quality) String() string {
	if q == "" {
		return string(Normal)
	}
	return string(q)
}

// descents is how many passes of coordinate descent follow GPTQ: the second
// still pays, the third hardly does (docs/benchmarks.md).
func (q Quality) descents() int {
	if q == Fast {
		return 0
	}
	return 2
}

// descentProducts is how many products of moments by weights so many passes take: one for
// what is left when they begin, and one for each.
func descentProducts(passes int) float64 {
	if passes == 0 {
		return 0
	}
	return float64(1 + passes)
}

// compensates reports whether columns of a matrix make up for each other's errors.
func (q Quality) compensates() bool { return q != Fast }
