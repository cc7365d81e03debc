package calib

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// A leaf is a column of values, which a nested column has several of.
type leaf struct {
	*schema.Column
	index int // in the file's schema

	// list is the index of the first leaf that lies in the same outermost list,
	// the leaf's own if it lies in none: in the schema, and of what is chosen
	// in the order of the choice.
	list int

	// present is the definition level from which on an element of the
	// innermost list is there, if only as a null.
	present int16

	// bytes is set of bytes that nobody says are text, and that are.
	bytes bool
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

// isText tells whether the values are texts.
func (l leaf) isText() bool {
	return l.bytes || l.isSaidText()
}

// isSaidText tells whether the file says that the values are texts.
func (l leaf) isSaidText() bool {
	switch l.LogicalType().(type) {
	case schema.StringLogicalType, schema.EnumLogicalType, schema.JSONLogicalType:
		return l.PhysicalType() == parquet.Types.ByteArray
	}
	return false
}

// isNothing tells whether the column has a type without values.
func (l leaf) isNothing() bool {
	switch l.LogicalType().(type) {
	case schema.NullLogicalType:
		return true
	}
	return false
}

// column returns the name of the column that the leaf is or is part of.
func (l leaf) column() string { return l.ColumnPath()[0] }

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
	leaves []leaf // in the order in which their values are joined
	tokens bool
}

// choose picks the leaves of a column, or if it is "" by the rules of Open.
func choose(all []leaf, root *schema.GroupNode, column string) (choice, error) {
	if column != "" {
		return chooseNamed(all, root, column)
	}
	if ids := filter(all, inIDs); isTokens(ids) {
		return choice{ids, true}, nil
	}
	texts := textsBelow(all, root)
	var odd error // about a column that should be text: others may be, but not just any
	for _, name := range textColumns {
		in := func(l leaf) bool { return l.within(name) }
		if found := filter(texts, in); len(found) > 0 {
			return texted(found), nil
		}
		if found := filter(all, func(l leaf) bool { return in(l) && !l.isNothing() }); len(found) > 0 && odd == nil {
			odd = notText(name, describe(found))
		}
	}
	for _, names := range chatColumns {
		chat := filter(texts, func(l leaf) bool { return len(l.ColumnPath()) > 1 && slices.Contains(names, l.column()) })
		if slices.ContainsFunc(chat, func(l leaf) bool { return l.column() == names[0] }) {
			return texted(chat), nil
		}
	}
	if odd != nil {
		return choice{}, odd
	}
	if len(texts) == 0 {
		return choice{}, fmt.Errorf("no column of text or token ids; there are %s", describe(all))
	}
	if ids := filter(all, inIDs); len(ids) > 0 && !slices.ContainsFunc(texts, inIDs) {
		return choice{}, neither(idsColumn, describe(ids))
	}
	return texted(texts), nil
}

func inIDs(l leaf) bool { return l.within(idsColumn) }

// notText is about the column in which a file's text should be.
func notText(column, is string) error {
	return fmt.Errorf("column %q is not text: %s; give --column, the column that is", column, is)
}

// neither is about a column that can only be a mistake: ids that are no plain list, such as
// lists of lists, or numbers.
func neither(column, is string) error {
	return fmt.Errorf("column %q holds neither text nor token ids: %s; token ids are a list of integers in each row", column, is)
}

// texted is the choice of texts, with those last that are ids or hashes.
func texted(texts []leaf) choice {
	identifiers := filter(texts, func(l leaf) bool { return isIdentifier(l.field()) })
	texts = filter(texts, func(l leaf) bool { return !isIdentifier(l.field()) })
	renumber(texts, 0)
	renumber(identifiers, len(texts))
	return choice{leaves: append(texts, identifiers...)}
}

// renumber makes the lists of leaves count from their place among the leaves,
// the first of which is at start.
func renumber(leaves []leaf, start int) {
	first := map[int]int{}
	for i := range leaves {
		list := leaves[i].list
		if _, known := first[list]; !known {
			first[list] = start + i
		}
		leaves[i].list = first[list]
	}
}

func chooseNamed(all []leaf, root *schema.GroupNode, column string) (choice, error) {
	named := filter(all, func(l leaf) bool { return l.within(column) })
	if len(named) == 0 {
		return choice{}, fmt.Errorf("no column %q; there are %s", column, describe(all))
	}
	if isTokens(named) {
		return choice{named, true}, nil
	}
	texts := filter(textsBelow(all, root), func(l leaf) bool { return l.within(column) })
	if len(texts) == 0 {
		texts = filter(named, leaf.isText) // a message's field that is left out otherwise
	}
	if len(texts) == 0 {
		return choice{}, neither(column, describe(named))
	}
	return texted(texts), nil
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
	return listed(names)
}
