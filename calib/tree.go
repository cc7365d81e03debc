package calib

import (
	"slices"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// textsBelow lists the texts among the leaves in the order in which a record's
// are read: that of the file, but in messages only role and content.
func textsBelow(all []leaf, root *schema.GroupNode) []leaf {
	t := tree{leaves: map[schema.Node]leaf{}}
	for _, l := range all {
		t.leaves[l.SchemaNode()] = l
	}
	t.visit(root, false)
	return t.texts
}

// A tree is a schema whose texts are collected.
type tree struct {
	leaves map[schema.Node]leaf
	texts  []leaf
}

func (t *tree) visit(n schema.Node, inMessage bool) {
	g, nested := n.(*schema.GroupNode)
	if !nested {
		if l, ok := t.leaves[n]; ok && l.isText() {
			t.texts = append(t.texts, l)
		}
		return
	}
	fields := make([]string, g.NumFields())
	for i := range fields {
		fields[i] = g.Field(i).Name()
	}
	// The root is a record, whose columns others than messages choose from.
	if picked := messageFields(fields, inMessage); picked != nil && g.Parent() != nil {
		for _, name := range picked {
			t.visit(g.Field(slices.Index(fields, name)), true)
		}
		return
	}
	for i := range fields { // two of which may have one name
		t.visit(g.Field(i), inMessage)
	}
}

// field returns the name of the innermost field that the leaf is: of a list,
// the list's, not those of the nodes that lists are made of.
func (l leaf) field() string {
	n := l.SchemaNode()
	for n.Parent() != nil && n.Parent().Parent() != nil && isListPart(n) {
		n = n.Parent()
	}
	return n.Name()
}

// isListPart tells whether a node is the repeated one of a list or below it:
// optional group NAME (LIST) { repeated group list { optional element } }.
func isListPart(n schema.Node) bool {
	parent := n.Parent().(*schema.GroupNode)
	alone := parent.NumFields() == 1
	return alone && (n.RepetitionType() == parquet.Repetitions.Repeated || parent.RepetitionType() == parquet.Repetitions.Repeated)
}
