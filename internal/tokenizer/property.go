package tokenizer

import (
	"strings"
	"sync"
	"unicode"
)

// charTypes are Oniguruma's character types and properties, in Unicode mode.
type charTypes struct {
	word, looseWord, space, digit, hex runeSet
	classes                            map[string]runeSet // POSIX brackets, such as [[:alpha:]]
	properties                         map[string]runeSet // names of \p{...}, as plainName writes them
	cased                              []rune             // characters that have case variants
}

// types holds the one charTypes, made when the first expression is read.
var types = sync.OnceValue(func() *charTypes {
	alphabetic := setOfTables(unicode.L, unicode.Nl, unicode.Other_Alphabetic)
	t := &charTypes{
		word:  alphabetic.union(setOfTables(unicode.M, unicode.Nd, unicode.Pc)),
		space: setOfTables(unicode.White_Space),
		digit: setOfTables(unicode.Nd),
		hex:   runeSet{{'0', '9'}, {'A', 'F'}, {'a', 'f'}},
	}
	t.looseWord = t.word.union(setOf('²', '³', '¹', '¼', '½', '¾')) // \w outside of brackets has a table of its own for Latin-1
	t.classes = posixClasses(t, alphabetic)
	t.properties = allProperties(t.classes)
	for _, c := range unicode.CaseRanges {
		for r := rune(c.Lo); r <= rune(c.Hi); r++ {
			if unicode.SimpleFold(r) != r {
				t.cased = append(t.cased, r)
			}
		}
	}
	return t
})

// posixClasses returns the classes that Oniguruma's doc/RE lists.
func posixClasses(t *charTypes, alphabetic runeSet) map[string]runeSet {
	control, blank := setOfTables(unicode.Cc), setOfTables(unicode.Zs)
	visible := t.space.union(control).union(setOfTables(unicode.Categories["Cn"], unicode.Cs)).not()
	return map[string]runeSet{
		"alnum":  alphabetic.union(t.digit),
		"alpha":  alphabetic,
		"ascii":  {{0, 0x7F}},
		"blank":  blank.union(setOf('\t')),
		"cntrl":  control,
		"digit":  t.digit,
		"graph":  visible,
		"lower":  setOfTables(unicode.Ll, unicode.Other_Lowercase),
		"print":  visible.union(blank),
		"punct":  setOfTables(unicode.P, unicode.S),
		"space":  t.space,
		"upper":  setOfTables(unicode.Lu, unicode.Other_Uppercase),
		"xdigit": t.hex,
		"word":   t.word,
	}
}

// allProperties collects classes and Unicode's categories, scripts and properties.
func allProperties(classes map[string]runeSet) map[string]runeSet {
	all := map[string]runeSet{
		"any":        allRunes,
		"assigned":   setOfTables(unicode.Categories["Cn"]).not(),
		"alphabetic": classes["alpha"],
		"lowercase":  classes["lower"],
		"uppercase":  classes["upper"],
	}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Properties, unicode.Scripts, unicode.Categories} {
		for name, t := range tables {
			all[plainName(name)] = setOfTables(t)
		}
	}
	for long, short := range unicode.CategoryAliases {
		all[plainName(long)] = setOfTables(unicode.Categories[short])
	}
	for name, s := range classes {
		all[name] = s
	}
	all["punct"] = setOfTables(unicode.P) // without the symbols that [[:punct:]] has
	return all
}

// plainName is how names of properties are compared.
func plainName(name string) string {
	return strings.NewReplacer(" ", "", "_", "", "-", "").Replace(strings.ToLower(name))
}
