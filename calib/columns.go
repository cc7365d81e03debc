package calib

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// idsColumn is the column that holds token ids in tokenized data sets.
const idsColumn = "input_ids"

// textColumns are the columns that are taken for the text, the best first.
var textColumns = []string{"text", "content"}

// A leaf is a column of values, which a nested column has several of.
type leaf struct {
	*schema.Column
	index int // in the file's schema

	// list is the index of the first leaf that lies in the same outermost list,
	// the leaf's own if it lies in none.
	list int

	// present is the definition level from which on an element of the
	// innermost list is there, if only as a null.
	present int16
}

// leavesOf lists the leaves of a schema.
func leavesOf(s *schema.Schema) []leaf {
	all := make([]leaf, s.NumColumns())
	var last schema.Node
	for i := range all {
		column := s.Column(i)
		all[i] = leaf{Column: column, index: i, list: i, present: presentLevel(column)}
		node := outermostList(column)
		if node != nil && node == last {
			all[i].list = all[i-1].list
		}
		last = node
	}
	return all
}

// outermostList returns the repeated node nearest to the root, or nil.
func outermostList(column *schema.Column) schema.Node {
	var list schema.Node
	for n := column.SchemaNode(); n != nil; n = n.Parent() {
		if n.RepetitionType() == parquet.Repetitions.Repeated {
			list = n
		}
	}
	return list
}

// presentLevel counts the nodes down to the innermost repeated one that add a
// definition level.
func presentLevel(column *schema.Column) int16 {
	level := column.MaxDefinitionLevel()
	for n := column.SchemaNode(); n != nil && n.RepetitionType() != parquet.Repetitions.Repeated; n = n.Parent() {
		if n.RepetitionType() == parquet.Repetitions.Optional {
			level--
		}
	}
	return level
}

// isText tells whether the values are texts: any strings of bytes are.
func (l leaf) isText() bool { return l.PhysicalType() == parquet.Types.ByteArray }

// isFlat tells whether the column is neither nested nor a list.
func (l leaf) isFlat() bool { return len(l.ColumnPath()) == 1 && l.MaxRepetitionLevel() == 0 }

// isTokens tells whether the values are lists of integers.
func (l leaf) isTokens() bool {
	physical := l.PhysicalType() == parquet.Types.Int32 || l.PhysicalType() == parquet.Types.Int64
	switch l.LogicalType().(type) {
	case nil, schema.NoLogicalType, schema.UnknownLogicalType, *schema.IntLogicalType, schema.IntLogicalType:
		return physical && l.MaxRepetitionLevel() == 1
	}
	return false
}

// within tells whether a leaf is the named column or part of it.
func (l leaf) within(name string) bool {
	return l.Path() == name || strings.HasPrefix(l.Path(), name+".")
}

// A choice is the leaves that a source reads: the ids of tokens, or texts.
type choice struct {
	leaves []leaf
	tokens bool
}

// choose picks the leaves of a column, or if it is "" by the rules of Open.
func choose(all []leaf, column string) (choice, error) {
	if column != "" {
		return chooseNamed(all, column)
	}
	if ids := filter(all, func(l leaf) bool { return l.within(idsColumn) }); isTokens(ids) {
		return choice{ids, true}, nil
	}
	for _, name := range textColumns {
		if texts := filter(all, func(l leaf) bool { return l.within(name) && l.isText() }); len(texts) > 0 {
			return choice{leaves: texts}, nil
		}
	}
	texts := filter(all, func(l leaf) bool { return l.isFlat() && l.isText() })
	if len(texts) == 0 {
		texts = filter(all, leaf.isText)
	}
	if len(texts) == 0 {
		return choice{}, fmt.Errorf("no column of text or token ids; there are %s", describe(all))
	}
	return choice{leaves: texts}, nil
}

func chooseNamed(all []leaf, column string) (choice, error) {
	named := filter(all, func(l leaf) bool { return l.within(column) })
	if len(named) == 0 {
		return choice{}, fmt.Errorf("no column %q; there are %s", column, describe(all))
	}
	if isTokens(named) {
		return choice{named, true}, nil
	}
	texts := filter(named, leaf.isText)
	if len(texts) == 0 {
		return choice{}, fmt.Errorf("column %q holds neither text nor token ids: %s", column, describe(named))
	}
	return choice{leaves: texts}, nil
}

// isTokens tells whether the leaves of a column are lists of integers.
func isTokens(leaves []leaf) bool { return len(leaves) == 1 && leaves[0].isTokens() }

func filter(all []leaf, keep func(leaf) bool) []leaf {
	return slices.DeleteFunc(slices.Clone(all), func(l leaf) bool { return !keep(l) })
}

// describe lists columns with their types for an error.
func describe(all []leaf) string {
	const most = 20
	var names []string
	for i, l := range all {
		if i == most {
			names = append(names, "...")
			break
		}
		names = append(names, fmt.Sprintf("%.60q (%v)", l.Path(), l.PhysicalType()))
	}
	return strings.Join(names, ", ")
}
