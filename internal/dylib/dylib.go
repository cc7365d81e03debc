// Package dylib loads shared libraries by the system's own loader, without cgo.
package dylib

// A Library is a shared library in this process, which it never leaves.
type Library struct{ handle uintptr }

// Open loads a library by its path, or by its name where the system looks for
// libraries. Other libraries see its functions.
func Open(name string) (Library, error) { return open(name, true) }

// OpenLocal is Open for a library whose functions others must not see.
func OpenLocal(name string) (Library, error) { return open(name, false) }

// Symbol returns the address of a function, to be called with
// purego.RegisterFunc or purego.SyscallN. 0 comes with an error.
func (l Library) Symbol(name string) (uintptr, error) { return l.symbol(name) }
