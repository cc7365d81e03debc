// Package job keeps the state of a long piece of work in a folder, so that a
// run that ends anywhere, however it ends, is continued by the next.
//
// The nouns: a [Job] is the folder, locked while a process works on it. Its
// files appear whole or not at all, so a file that is there is a step that is
// done. The list, files.jsonl, says of every file that the job ever wrote, in
// its folder or elsewhere, how many bytes it had and which: only what is there
// as it was written is read, replaced or deleted as the job's own. [Setting]s
// are what the results depend on; a run with others is refused. A [Checkpoint]
// is hidden states in front of some module.
package job
