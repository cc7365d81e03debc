package pattern

import (
	"sync"

	"exl2/infer/tokenizer/internal/chars"
)

// charTypes are Oniguruma's character types, in Unicode mode.
type charTypes struct {
	word, looseWord, space, digit, hex chars.Set
	classes                            map[string]chars.Set // POSIX brackets, such as [[:alpha:]]
}

// types holds the one charTypes, made when the first expression is read.
var types = sync.OnceValue(func() *charTypes {
	t := &charTypes{
		word:  chars.Union("Alphabetic", "M", "Nd", "Pc"),
		space: chars.Union("White_Space"),
		digit: chars.Union("Nd"),
		hex:   chars.Spans('0', '9', 'A', 'F', 'a', 'f'),
	}
	t.looseWord = t.word.Union(chars.Of('²', '³', '¹', '¼', '½', '¾')) // \w outside of brackets has a table of its own for Latin-1
	t.classes = posixClasses(t)
	return t
})

// posixClasses returns the classes that Oniguruma's doc/RE lists.
func posixClasses(t *charTypes) map[string]chars.Set {
	alphabetic, control, blank := chars.Union("Alphabetic"), chars.Union("Cc"), chars.Union("Zs")
	visible := t.space.Union(control).Union(chars.Union("Cn", "Cs")).Not()
	return map[string]chars.Set{
		"alnum":  alphabetic.Union(t.digit),
		"alpha":  alphabetic,
		"ascii":  chars.Spans(0, 0x7F),
		"blank":  blank.Union(chars.Of('\t')),
		"cntrl":  control,
		"digit":  t.digit,
		"graph":  visible,
		"lower":  chars.Union("Lowercase"),
		"print":  visible.Union(blank),
		"punct":  chars.Union("P", "S"),
		"space":  t.space,
		"upper":  chars.Union("Uppercase"),
		"xdigit": t.hex,
		"word":   t.word,
	}
}

// property returns the characters of \p{name}.
func property(name string) (chars.Set, bool) {
	plain := chars.PlainName(name)
	if plain != "punct" { // \p{Punct} is the category, without the symbols that [[:punct:]] has
		if s, ok := types().classes[plain]; ok {
			return s, true
		}
	}
	return chars.Named(plain)
}
