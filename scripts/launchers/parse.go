package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A kernel is an entry point of a source.
type kernel struct {
	Op, Name  string
	Params    []param
	Dependent bool // it may be launched as a programmatic dependent: it waits by itself for the kernel before it
}

// A param is a kernel's parameter: what the launcher takes and how it is put
// into the argument buffer.
type param struct {
	Name string
	Go   string // type in the launcher
	Put  string // method of arguments that stores it
	Elem string // element type of a tensor
}

// scalars are the C types that are passed by value.
var scalars = map[string]param{
	"int":                {Go: "int32", Put: "int32"},
	"unsigned":           {Go: "uint32", Put: "uint32"},
	"float":              {Go: "float32", Put: "float32"},
	"long long":          {Go: "int64", Put: "int64"},
	"unsigned long long": {Go: "uint64", Put: "uint64"},
	"int32_t":            {Go: "int32", Put: "int32"},
	"uint32_t":           {Go: "uint32", Put: "uint32"},
	"int64":              {Go: "int64", Put: "int64"},
	"int64_t":            {Go: "int64", Put: "int64"},
	"uint64_t":           {Go: "uint64", Put: "uint64"},
}

// elements are the C types whose arrays are tensors; others are plain pointers.
var elements = map[string]string{
	"float": "F32", "half": "F16", "__half": "F16", "bf16": "BF16", "__nv_bfloat16": "BF16",
	"int": "I32", "int32_t": "I32", "uint8_t": "U8", "unsigned char": "U8", "double": "F64",
}

var (
	lineComment  = regexp.MustCompile(`//[^\n]*`)
	blockComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	qualifiers   = regexp.MustCompile(`\b(const|__restrict__|__grid_constant__)\b`)
	bounds       = regexp.MustCompile(`__launch_bounds__\s*\([^()]*\)`)
	entry        = regexp.MustCompile(`extern\s+"C"\s+__global__\s+void\s+(\w+)\s*\(([^()]*)\)`)
	spaces       = regexp.MustCompile(`\s+`)
	identifier   = regexp.MustCompile(`^[a-z]\w*$`)
	structure    = regexp.MustCompile(`^[A-Z]\w*$`) // whose bytes the launcher is given
)

// expanded returns a source without comments and bounds, what its macros make included.
func expanded(source string) string {
	source = blockComment.ReplaceAllString(lineComment.ReplaceAllString(source, ""), " ")
	return bounds.ReplaceAllString(expand(source), " ")
}

// parse finds the entry points of an expanded source, of whose functions some wait.
func parse(op, source string, dependent map[string]bool) ([]kernel, error) {
	var kernels []kernel
	for _, m := range entry.FindAllStringSubmatch(source, -1) {
		k := kernel{Op: op, Name: m[1], Dependent: dependent[m[1]]}
		if k.Name != op && !strings.HasPrefix(k.Name, op+"_") {
			return nil, fmt.Errorf("kernel %s: its name does not begin with %s", k.Name, op)
		}
		for _, text := range strings.Split(m[2], ",") {
			p, err := parseParam(text)
			if err != nil {
				return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
			}
			k.Params = append(k.Params, p)
		}
		kernels = append(kernels, k)
	}
	if n := strings.Count(source, "__global__"); n != len(kernels) {
		return nil, fmt.Errorf(`%d kernels of %d are declared as extern "C" __global__ void name(parameters)`, len(kernels), n)
	}
	if len(kernels) == 0 {
		return nil, fmt.Errorf("no kernels")
	}
	return kernels, nil
}

// parseParam reads one parameter, as "const half* x".
func parseParam(text string) (param, error) {
	text = strings.TrimSpace(spaces.ReplaceAllString(qualifiers.ReplaceAllString(text, " "), " "))
	cut := strings.LastIndexAny(text, " *")
	if cut < 0 {
		return param{}, fmt.Errorf("parameter %q has no name", text)
	}
	kind, name := strings.TrimSpace(text[:cut+1]), camel(text[cut+1:])
	if !identifier.MatchString(name) {
		return param{}, fmt.Errorf("parameter %q has no name that begins in lower case", text)
	}
	if pointee, ok := strings.CutSuffix(kind, "*"); ok {
		pointee = strings.TrimSpace(pointee)
		if strings.Contains(pointee, "*") {
			return param{}, fmt.Errorf("parameter %q is a pointer to pointers", text)
		}
		if elem, ok := elements[pointee]; ok {
			return param{Name: name, Go: "tensor.Tensor", Put: "tensor", Elem: elem}, nil
		}
		return param{Name: name, Go: "pointer", Put: "pointer"}, nil
	}
	if structure.MatchString(kind) {
		return param{Name: name, Go: "[]byte", Put: "bytes"}, nil
	}
	p, ok := scalars[kind]
	if !ok {
		return param{}, fmt.Errorf("parameter %q: launchers do not know type %s", text, kind)
	}
	p.Name = name
	return p, nil
}

// camel turns a C name into a Go name.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	name = strings.Join(parts, "")
	if reserved[name] {
		return name + "_"
	}
	return name
}

// reserved are the names that launchers cannot use for parameters.
var reserved = map[string]bool{
	"d": true, "l": true, "a": true, "break": true, "case": true, "chan": true, "const": true, "default": true, "defer": true, "func": true,
	"go": true, "import": true, "interface": true, "map": true, "package": true, "range": true, "select": true, "type": true, "var": true,
}
