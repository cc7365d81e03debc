package jinja

// A kind of token.
type kind uint8

const (
	endOfTemplate kind = iota
	data
	printBegin
	printEnd
	blockBegin
	blockEnd
	nameToken
	stringToken
	integerToken
	floatToken
	operator
	badToken // an error of the lexer, raised when the parser gets there
)

// A token of a template. Text is a name, an operator or data as written; value
// is that of a literal, or the *failure of a bad token.
type token struct {
	kind  kind
	line  int
	text  string
	value Value
}

// kindNames are what messages call tokens.
var kindNames = [...]string{
	endOfTemplate: "end of template", data: "template data / text", printBegin: "begin of print statement",
	printEnd: "end of print statement", blockBegin: "begin of statement block", blockEnd: "end of statement block",
	nameToken: "name", stringToken: "string", integerToken: "integer", floatToken: "float",
}

// String describes a token for messages.
func (t token) String() string {
	if t.kind == nameToken || t.kind == operator {
		return t.text
	}
	return kindNames[t.kind]
}

// is reports whether the token is the given operator or keyword.
func (t token) is(text string) bool {
	return (t.kind == nameToken || t.kind == operator) && t.text == text
}
