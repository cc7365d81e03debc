// Package exl2 is the executable document of the EXL2 tensor format: groups,
// packed codes, scales, permutation, and the arithmetic of bits per weight.
// docs/format.md says the same in prose.
//
// The nouns: a linear y = x·W has a [Matrix] of In rows and Out columns. Its
// rows are stored in activation order, a permutation of the inputs. A [Group]
// is a run of stored rows that share a bit width and one row of scales. A
// [Recipe] says how a matrix is to be cut into groups.
package exl2
