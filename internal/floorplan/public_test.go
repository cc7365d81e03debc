package floorplan

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// public lists the packages that other programs may import.
var public = []string{"convert", "measure", "calib", "quant", "infer", "infer/tokenizer"}

// TestPublic wants packages that can be used from outside: nothing exported
// mentions a type of an internal package, which nobody there could name.
func TestPublic(t *testing.T) {
	files := token.NewFileSet()
	from := compiled(t, files)
	for _, name := range public {
		t.Run(name, func(t *testing.T) {
			for _, fault := range leaks(checkPackage(t, files, from, name)) {
				t.Error(fault)
			}
		})
	}
}

// compiled returns what finds the types of compiled packages.
func compiled(t *testing.T, files *token.FileSet) types.Importer {
	t.Helper()
	args := []string{"list", "-deps", "-export", "-f", "{{.ImportPath}}={{.Export}}"}
	for _, name := range public {
		args = append(args, "exl2/"+name)
	}
	list, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for _, line := range strings.Fields(string(list)) {
		path, file, _ := strings.Cut(line, "=")
		at[path] = file
	}
	return importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(at[path]) })
}

// TestExamples wants an example of every public package, written as another
// program would be.
func TestExamples(t *testing.T) {
	for _, name := range public {
		file := filepath.Join("..", "..", name, "example_test.go")
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		found := false
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			found = found || ok && fn.Name.Name == "Example"
		}
		if !found || !strings.HasSuffix(f.Name.Name, "_test") {
			t.Errorf("%s: package %s, want an Example from outside the package", file, f.Name.Name)
		}
		for _, i := range f.Imports {
			if strings.Contains(i.Path.Value, "/internal/") {
				t.Errorf("%s imports %s", file, i.Path.Value)
			}
		}
	}
}

// checkPackage type-checks a package without its tests.
func checkPackage(t *testing.T, files *token.FileSet, from types.Importer, name string) *types.Package {
	t.Helper()
	dir := filepath.Join("..", "..", name)
	found, err := build.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []*ast.File
	for _, f := range found.GoFiles {
		parsed, err := parser.ParseFile(files, filepath.Join(dir, f), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, parsed)
	}
	pkg, err := (&types.Config{Importer: from}).Check("exl2/"+name, files, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// leaks lists the types of internal packages that what pkg exports mentions.
func leaks(pkg *types.Package) []string {
	s := &surface{pkg: pkg, seen: map[types.Type]bool{}}
	for _, name := range pkg.Scope().Names() {
		if o := pkg.Scope().Lookup(name); o.Exported() {
			s.object(name, o)
		}
	}
	return s.faults
}

// A surface is what a package exports, as far as it has been looked at.
type surface struct {
	pkg    *types.Package
	seen   map[types.Type]bool
	faults []string
}

func (s *surface) object(path string, o types.Object) {
	if named, ok := o.Type().(*types.Named); ok && o.Pkg() == s.pkg && named.Obj() == o {
		for i := range named.NumMethods() {
			if m := named.Method(i); m.Exported() {
				s.mention(path+"."+m.Name(), m.Type())
			}
		}
		s.mention(path, named.Underlying())
		return
	}
	s.mention(path, o.Type())
}

// mention looks at a type that stands at path.
func (s *surface) mention(path string, t types.Type) {
	switch t := t.(type) {
	case *types.Named:
		s.named(path, t.Obj(), t.TypeArgs())
	case *types.Alias:
		s.named(path, t.Obj(), t.TypeArgs())
		s.mention(path, types.Unalias(t))
	case *types.Pointer:
		s.mention(path, t.Elem())
	case *types.Slice:
		s.mention(path, t.Elem())
	case *types.Array:
		s.mention(path, t.Elem())
	case *types.Chan:
		s.mention(path, t.Elem())
	case *types.Map:
		s.mention(path, t.Key())
		s.mention(path, t.Elem())
	case *types.Signature:
		for v := range t.Params().Variables() {
			s.mention(path, v.Type())
		}
		for v := range t.Results().Variables() {
			s.mention(path, v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				s.mention(path+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			s.mention(path+"."+m.Name(), m.Type())
		}
	}
}

func (s *surface) named(path string, o *types.TypeName, args *types.TypeList) {
	if o.Pkg() == nil {
		return
	}
	if strings.Contains("/"+o.Pkg().Path()+"/", "/internal/") {
		s.faults = append(s.faults, fmt.Sprintf("%s.%s mentions %s.%s", s.pkg.Name(), path, o.Pkg().Path(), o.Name()))
	}
	for i := range args.Len() {
		s.mention(path, args.At(i))
	}
}

// TestLeaks looks at what TestPublic finds.
func TestLeaks(t *testing.T) {
	const code = `package p
import "exl2/internal/tensor"
type Own struct { Fine int; hidden tensor.Tensor; Open []tensor.Tensor }
func (*Own) Method(map[string]*tensor.Tensor) {}
func (Own) unexported(tensor.Tensor) {}
type Alias = tensor.Tensor
type Func func(Own) tensor.Type
var Sizes = [2]tensor.Type{}
type own struct { Open tensor.Tensor }
type Fine interface { Next(own) error }
`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p.go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := (&types.Config{Importer: compiled(t, files)}).Check("p", files, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(leaks(pkg), "\n")
	want := strings.Join([]string{
		"p.Alias mentions exl2/internal/tensor.Tensor",
		"p.Func mentions exl2/internal/tensor.Type",
		"p.Own.Method mentions exl2/internal/tensor.Tensor",
		"p.Own.Open mentions exl2/internal/tensor.Tensor",
		"p.Sizes mentions exl2/internal/tensor.Type",
	}, "\n")
	if got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
}
