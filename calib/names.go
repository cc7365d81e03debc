package calib

import (
	"slices"
	"strings"
	"unicode"
)

// idsColumn is the column that holds token ids in tokenized data sets.
const idsColumn = "input_ids"

// textColumns are the columns that are taken for the text, the best first.
var textColumns = []string{"text", "content"}

// chatColumns hold conversations, if they are nested: the first that is there
// is taken, with those behind it. The names are those of chat, ShareGPT, LMSYS
// and preference data sets.
var chatColumns = [][]string{{"messages"}, {"conversations"}, {"conversation"}, {"prompt", "completion", "chosen"}}

// The fields of a message: who speaks, what is said. Structures that have
// neither are no messages, and those that have both have more (time, language,
// weight) that is no part of the text.
var (
	roleFields    = []string{"role", "from"}
	contentFields = []string{"content", "value", "text"}
)

// messageFields returns the fields of a structure that are its text, in the
// order in which they are read: role and content of a message. Content in
// parts, {"type": "text", "text": ...}, has no text but text. Of a structure
// that is neither, for which it returns nil, all fields are.
func messageFields(names []string, inMessage bool) []string {
	role, content := firstOf(names, roleFields), firstOf(names, contentFields)
	switch {
	case role != "" && content != "":
		return []string{role, content}
	case inMessage && slices.Contains(names, "text"):
		return []string{"text"}
	}
	return nil
}

// firstOf returns the first of wanted that is among names, or "".
func firstOf(names, wanted []string) string {
	for _, w := range wanted {
		if slices.Contains(names, w) {
			return w
		}
	}
	return ""
}

// isIdentifier tells by the name of a column whether its strings tell records
// apart rather than say anything: prompt_id, conversationId, md5, hashed_ip.
func isIdentifier(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 {
		return false
	}
	for _, w := range words {
		switch w {
		case "hash", "hashed", "md5", "sha", "sha1", "sha256", "sha512", "hexsha", "checksum", "uuid", "guid":
			return true
		}
	}
	switch words[len(words)-1] {
	case "id", "ids", "idx", "uid", "index":
		return true
	}
	return false
}

// wordsOf splits a name at what is no letter or digit, and where a capital
// follows a small letter.
func wordsOf(name string) []string {
	var spaced strings.Builder
	small := false
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		if small && unicode.IsUpper(r) {
			spaced.WriteByte(' ')
		}
		small = unicode.IsLower(r)
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(spaced.String())
}
