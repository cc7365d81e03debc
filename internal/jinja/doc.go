// Package jinja renders the Jinja templates in which models say how a
// conversation becomes a prompt, to the byte as transformers does: Jinja 3.1 in
// a sandbox, with trim_blocks and lstrip_blocks, break and continue, generation
// blocks, and json.dumps as tojson.
//
// The nouns: a [Template] is parsed once and rendered often. Values are Python's
// ([Value] says how they are held), printed and compared as Python does. What a
// template uses and this package does not know is an [Error] that names it and
// the line. Templates are foreign code: every rendering has [Limits].
//
// Of Python's behaviour these are left out, each refused by name: random choices
// (random, lipsum), templates in other files (include, import, extends), and the
// text of things that Python prints with an address.
package jinja
