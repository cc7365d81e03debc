package sensitivity

import (
	"slices"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/exl2"
)

// The options that ExLlamaV2 measures, read off a file that it wrote
// (golden/exl2/small.measurement.json): one line each, the recipes of q, k, v
// and o, or of gate, up and down.
const attentionOptions = `
0.05:3b_64g/0.95:2b_64g 0.05:3b_64g/0.95:2b_64g 0.05:3b_64g/0.95:2b_64g 0.05:3b_64g/0.95:2b_64g
0.1:3b_64g/0.9:2b_64g 0.1:3b_64g/0.9:2b_64g 0.25:3b_64g/0.75:2b_64g 0.1:3b_64g/0.9:2b_64g
0.1:3b_64g/0.9:2b_64g 0.1:3b_64g/0.9:2b_64g 0.1:4b_128g/0.9:3b_128g 0.1:3b_64g/0.9:2b_64g
0.1:3b_64g/0.9:2b_64g 0.1:3b_64g/0.9:2b_64g 0.1:4b_128g/0.9:3b_128g 0.1:4b_128g/0.9:3b_128g
0.1:4b_128g/0.9:3b_128g 0.1:4b_128g/0.9:3b_128g 0.1:4b_128g/0.9:3b_128g 0.1:4b_128g/0.9:3b_128g
0.1:4b_128g/0.9:3b_128g 0.1:4b_128g/0.9:3b_128g 0.1:4b_64g/0.9:3b_64g 0.1:4b_128g/0.9:3b_128g
1:4b_128g 1:4b_128g 1:4b_128g 1:4b_128g
1:4b_128g 1:4b_128g 1:4b_64g 1:4b_128g
1:4b_64g 1:4b_64g 1:4b_32g 1:4b_64g
1:4b_32g 1:4b_32g 1:4b_32g 1:4b_32g
0.1:5b_128g/0.9:4b_128g 0.1:5b_128g/0.9:4b_128g 0.1:5b_64g/0.9:4b_64g 0.1:5b_128g/0.9:4b_128g
0.1:5b_64g/0.9:4b_64g 0.1:5b_64g/0.9:4b_64g 0.1:5b_32g/0.9:4b_32g 0.1:5b_64g/0.9:4b_64g
0.1:5b_64g/0.9:4b_64g 0.1:5b_64g/0.9:4b_64g 1:5b_64g 0.1:5b_64g/0.9:4b_64g
0.1:5b_32g/0.9:4b_32g 0.1:5b_32g/0.9:4b_32g 1:5b_32g 0.1:5b_32g/0.9:4b_32g
0.1:6b_128g/0.9:5b_128g 0.1:6b_128g/0.9:5b_128g 1:6b_128g 0.1:6b_128g/0.9:5b_128g
0.1:6b_32g/0.9:5b_32g 0.1:6b_32g/0.9:5b_32g 1:6b_32g 0.1:6b_32g/0.9:5b_32g
1:6b_128g 1:6b_128g 1:6b_128g 1:6b_128g
1:6b_32g 1:6b_32g 1:8b_32g 1:6b_32g
1:8b_128g 1:8b_128g 1:8b_128g 1:8b_128g`

const mlpOptions = `
0.05:3b_64g/0.95:2b_64g 0.05:3b_64g/0.95:2b_64g 0.05:6b_32g/0.2:3b_64g/0.75:2b_64g
0.1:3b_64g/0.9:2b_64g 0.25:3b_64g/0.75:2b_64g 0.05:6b_32g/0.2:3b_64g/0.75:2b_64g
0.1:3b_64g/0.9:2b_64g 0.3:3b_64g/0.7:2b_64g 0.05:5b_32g/0.95:3b_32g
0.1:3b_64g/0.9:2b_64g 0.3:3b_64g/0.7:2b_64g 0.05:5b_32g/0.95:4b_32g
0.1:4b_128g/0.9:3b_128g 0.25:4b_128g/0.75:3b_128g 0.05:8b_32g/0.1:4b_128g/0.85:3b_128g
0.1:4b_32g/0.9:3b_32g 0.25:4b_32g/0.75:3b_32g 0.05:8b_32g/0.1:4b_32g/0.85:3b_32g
0.1:4b_32g/0.9:3b_32g 0.25:4b_32g/0.75:3b_32g 0.05:8b_32g/0.95:4b_128g
1:4b_128g 1:4b_32g 0.05:8b_32g/0.95:4b_128g
1:4b_32g 1:4b_32g 0.05:8b_32g/0.95:4b_32g
0.1:5b_128g/0.9:4b_128g 0.25:5b_128g/0.75:4b_128g 0.05:8b_32g/0.1:5b_128g/0.85:4b_128g
0.1:5b_32g/0.9:4b_32g 0.25:5b_32g/0.75:4b_32g 0.05:8b_32g/0.1:5b_32g/0.85:4b_32g
0.1:6b_128g/0.9:5b_128g 0.25:6b_128g/0.75:5b_128g 0.05:8b_32g/0.1:6b_128g/0.85:5b_128g
0.1:6b_32g/0.9:5b_32g 0.25:6b_32g/0.75:5b_32g 0.05:8b_32g/0.1:6b_32g/0.85:5b_32g
1:6b_128g 1:6b_128g 0.05:8b_32g/0.95:6b_128g
0.1:8b_128g/0.9:6b_128g 0.1:8b_128g/0.9:6b_128g 0.15:8b_128g/0.85:6b_128g
0.1:8b_128g/0.9:6b_128g 0.1:8b_128g/0.9:6b_128g 1:8b_128g
1:8b_128g 1:8b_128g 1:8b_128g`

// An optionTable is what ExLlamaV2 measures for one kind of sublayer, by the
// roles of its matrices.
type optionTable struct {
	roles   []arch.Role
	options [][]exl2.Recipe
}

var optionTables = []optionTable{
	{[]arch.Role{arch.Q, arch.K, arch.V, arch.O}, parseOptions(attentionOptions)},
	{[]arch.Role{arch.Gate, arch.Up, arch.Down}, parseOptions(mlpOptions)},
}

// parseOptions reads lines of recipes.
func parseOptions(text string) [][]exl2.Recipe {
	var options [][]exl2.Recipe
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var recipes []exl2.Recipe
		for _, field := range strings.Fields(line) {
			recipes = append(recipes, exl2.MustRecipe(field))
		}
		options = append(options, recipes)
	}
	return options
}

// optionsFor returns ExLlamaV2's options for matrices of a role, one recipe
// each: the options of a sublayer are those of its matrices side by side.
func optionsFor(r arch.Role) []exl2.Recipe {
	for _, t := range optionTables {
		i := slices.Index(t.roles, r)
		if i < 0 {
			continue
		}
		list := make([]exl2.Recipe, len(t.options))
		for k, o := range t.options {
			list[k] = o[i]
		}
		return list
	}
	return nil
}

// Kept lists the recipes of Recipes that options need, each once.
func Kept(r arch.Role) (list []exl2.Recipe) {
	seen := map[string]bool{}
	for _, o := range optionsFor(r) {
		if !seen[o.String()] {
			seen[o.String()] = true
			list = append(list, o)
		}
	}
	return list
}

// Probe is the recipe that sensitivities are found by.
func Probe() exl2.Recipe { return probe }

// ours lists the recipes that every matrix is measured with, beside those of
// the options: one width in each group size, and mixes of neighbouring widths.
func ours() []exl2.Recipe {
	var list []exl2.Recipe
	for _, bits := range exl2.Widths {
		for _, group := range []int{32, 64, 128} {
			list = append(list, exl2.Uniform(bits, group))
		}
	}
	for i := 1; i < len(exl2.Widths); i++ {
		for _, share := range []float64{0.125, 0.25, 0.5, 0.75} {
			list = append(list, exl2.Recipe{
				{Bits: exl2.Widths[i], Group: 64, Share: share},
				{Bits: exl2.Widths[i-1], Group: 64, Share: 1 - share},
			})
		}
	}
	return list
}

// probe is the recipe that matrices are stored with to find the sensitivity of the
// model's output to their errors.
var probe = exl2.Uniform(3, 64)

// Recipes lists the distinct recipes that are measured for matrices of a role.
func Recipes(r arch.Role) []exl2.Recipe {
	list := ours()
	seen := map[string]bool{}
	for _, r := range list {
		seen[r.String()] = true
	}
	for _, o := range optionsFor(r) {
		if key := o.String(); !seen[key] {
			seen[key] = true
			list = append(list, o)
		}
	}
	return list
}
