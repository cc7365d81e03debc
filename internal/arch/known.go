package arch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Scope says how much of a checkpoint is run.
type Scope string

// Proof says what an architecture's logits are checked against.
type Proof string

// Scopes and proofs.
const (
	Whole Scope = "whole"
	Text  Scope = "text only" // other tensors are kept as they are

	Golden      Proof = "golden"      // a random model's logits, computed by transformers
	Description Proof = "description" // nothing: written from what is published
)

// An Entry is one line of the table of architectures.
type Entry struct {
	Name  string // in config.json's "architectures"
	Type  string // its model_type; empty for a further spelling of another's name
	Scope Scope
	Proof Proof
}

// Known lists the supported architectures by name.
func Known() []Entry {
	var list []Entry
	for name, e := range table {
		list = append(list, Entry{name, e.kind, e.scope, e.proof})
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// nameOf returns the architecture that a model_type belongs to.
func nameOf(kind string) (name string, ok bool) {
	for name, e := range table {
		if kind != "" && strings.EqualFold(e.kind, kind) {
			return name, true
		}
	}
	return "", false
}

// unknown is the error about an architecture that is not in the table. It names
// the nearest one, if any is near, and all.
func unknown(name, kind string) error {
	var names []string
	for _, e := range Known() {
		names = append(names, e.Name)
	}
	near := ""
	if n, ok := nearest(name, kind); ok {
		near = fmt.Sprintf("; the nearest known is %s", n)
	}
	return fmt.Errorf("%w: architecture %q%s (known: %s)", ErrUnsupported, name, near, strings.Join(names, ", "))
}

// nearest returns the known architecture whose name, or model_type, differs
// least from those given, if that is by less than half.
func nearest(name, kind string) (string, bool) {
	best, least := "", 0.5
	for _, e := range Known() {
		d := difference(stem(name), stem(e.Name))
		if kind != "" && e.Type != "" {
			d = min(d, difference(strings.ToLower(kind), e.Type))
		}
		if d < least {
			best, least = e.Name, d
		}
	}
	return best, best != ""
}

// stem is what tells architectures apart in their names.
func stem(name string) string {
	name = strings.ToLower(name)
	for _, end := range []string{"forcausallm", "forconditionalgeneration", "lmheadmodel", "model"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}

// difference is the edit distance of two words as a share of the longer one,
// halved if one, of three letters or more, begins the other.
func difference(a, b string) float64 {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	d := float64(row[len(b)]) / float64(max(len(a), len(b), 1))
	if min(len(a), len(b)) > 2 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		d /= 2
	}
	return d
}
