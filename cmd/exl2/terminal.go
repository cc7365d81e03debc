package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// A terminal reads lines that can be edited. It is in raw mode while it waits for
// one and as the user has left it otherwise, so that Ctrl-C is a signal while the
// program works.
type terminal struct {
	in, out     *os.File
	signals     *interrupts
	editor      *term.Terminal
	keys        []byte // read, but not by the editor yet
	begun       []byte // a character of which only the beginning has been read
	interrupted bool   // the editor's last key was Ctrl-C
}

const ctrlC = 3

// newTerminal returns the terminal that in and out are, or nil if one is not.
func newTerminal(in, out *os.File, signals *interrupts) *terminal {
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	t := &terminal{in: in, out: out, signals: signals}
	t.editor = term.NewTerminal(t, "> ")
	return t
}

// Read reads keys, for the editor, up to a Ctrl-C: to the editor that is an end
// like Ctrl-D.
func (t *terminal) Read(p []byte) (int, error) {
	for len(t.keys) == 0 {
		buf := make([]byte, 256)
		n, err := t.in.Read(buf)
		if err != nil {
			return 0, err
		}
		t.keys, t.begun = characters(append(t.begun, buf[:n]...))
	}
	n := copy(p, t.keys)
	if at := bytes.IndexByte(t.keys[:n], ctrlC); at >= 0 {
		n = at + 1
	}
	t.interrupted = n > 0 && t.keys[n-1] == ctrlC
	t.keys = t.keys[n:]
	return n, nil
}

// characters returns the whole characters of what was typed, and the beginning of one that is
// not whole. What is no character is a question mark, and so is U+FFFD: for each of them the
// editor lets what follows, Ctrl-C as well, wait for another key.
func characters(typed []byte) (whole, begun []byte) {
	for len(typed) > 0 && utf8.FullRune(typed) {
		r, n := utf8.DecodeRune(typed)
		if r == utf8.RuneError {
			r = '?'
		}
		whole, typed = utf8.AppendRune(whole, r), typed[n:]
	}
	return whole, typed
}

// Write writes what the editor shows.
func (t *terminal) Write(p []byte) (int, error) { return t.out.Write(p) }

// read returns what the user types: a line, with those before it that end in \,
// and all that is pasted at once. Ctrl-C begins a new line. The end is io.EOF.
// A signal that comes meanwhile ends the program.
func (t *terminal) read(ctx context.Context) (string, error) {
	before, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return "", err
	}
	restore := func() { term.Restore(int(t.in.Fd()), before) }
	defer restore()
	defer t.signals.take(nil)() // Ctrl-C is a key
	defer context.AfterFunc(ctx, func() {
		restore()
		os.Exit(exitInterrupted)
	})()
	if width, height, err := term.GetSize(int(t.out.Fd())); err == nil && width > 0 {
		t.editor.SetSize(width, height)
	}
	t.editor.SetBracketedPasteMode(true)
	defer t.editor.SetBracketedPasteMode(false)
	var lines []string
	for {
		line, err := t.editor.ReadLine()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		if err == io.EOF && t.interrupted {
			t.again()
			lines = nil
			continue
		}
		if err != nil && !pasted {
			io.WriteString(t.out, "\r\n")
			return "", err
		}
		head, more := strings.CutSuffix(line, `\`)
		if !more || pasted {
			head = line
		}
		lines = append(lines, head)
		if !pasted && !more {
			return strings.Join(lines, "\n"), nil
		}
	}
}

// again begins a new line with an editor that remembers the old ones.
func (t *terminal) again() {
	io.WriteString(t.out, "^C\r\n")
	history := t.editor.History
	t.editor = term.NewTerminal(t, "> ")
	t.editor.History = history
	if width, height, err := term.GetSize(int(t.out.Fd())); err == nil && width > 0 {
		t.editor.SetSize(width, height)
	}
}
