package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var root = filepath.Join("..", "..", "cuda")

// The launchers in the repository are those of the kernels in the repository.
func TestUpToDate(t *testing.T) {
	want, err := generate(os.DirFS(filepath.Join(root, "kernels")))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "kernels_gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("cuda/kernels_gen.go is not what its sources give; run `make generate`")
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, source string
		want         string // kernels as signatures, or the error
	}{
		{"plain", `extern "C" __global__ void op(float* y, const half* x, int n) {}`, "op(y tensor.Tensor F32, x tensor.Tensor F16, n int32)"},
		{"bounds", `extern "C" __global__ void __launch_bounds__(128, 2) op_f16(unsigned long long n, const uint32_t* __restrict__ words) {}`,
			"op_f16(n uint64, words pointer)"},
		{"bounds first", `extern "C" __global__ __launch_bounds__(64) void op(int32_t n) {}`, "op(n int32)"},
		{"struct", `extern "C" __global__ void op(const __grid_constant__ Product product) {}`, "op(product []byte)"},
		{"names", `extern "C" __global__ void op(int page_rows, float type) {}`, "op(pageRows int32, type_ float32)"},
		{"comments", "extern \"C\" __global__ void op(\n\tfloat* y,  // [rows, cols]\n\t/* rows, */ int n) {}", "op(y tensor.Tensor F32, n int32)"},
		{"macro", "#define OP(name, T) \\\n extern \"C\" __global__ void name(T* y, long long n) \\\n { f<T>(y); }\nOP(op_a, half)\nOP(op_b, bf16)\n",
			"op_a(y tensor.Tensor F16, n int64) op_b(y tensor.Tensor BF16, n int64)"},
		{"pasting, and a macro of macros", "#define ALL(X) OP(X, float) OP(X ## _wide, half)\n#define OP(N, T) extern \"C\" __global__ void op_##N(T *x) {}\nALL(m1)\n",
			"op_m1(x tensor.Tensor F32) op_m1_wide(x tensor.Tensor F16)"},
		{"other name", `extern "C" __global__ void other(int n) {}`, "kernel other: its name does not begin with op"},
		{"other linkage", `__global__ void op(int n) {}`, "0 kernels of 1"},
		{"unknown type", `extern "C" __global__ void op(double x) {}`, "launchers do not know type double"},
		{"pointer to pointers", `extern "C" __global__ void op(float** x) {}`, "is a pointer to pointers"},
		{"nothing", `__device__ void f() {}`, "no kernels"},
	} {
		kernels, err := parse("op", expanded(c.source), nil)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			continue
		}
		if got := describe(kernels); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func describe(kernels []kernel) string {
	var list []string
	for _, k := range kernels {
		var params []string
		for _, p := range k.Params {
			params = append(params, strings.TrimSpace(p.Name+" "+p.Go+" "+p.Elem))
		}
		list = append(list, k.Name+"("+strings.Join(params, ", ")+")")
	}
	return strings.Join(list, " ")
}

// Kernels that wait, whatever they call for it, may be programmatic dependent launches; others may not.
func TestDependent(t *testing.T) {
	const source = `
template <class T> __device__ inline void deep(T* x) { after_previous(); }
template <class T>
__device__ void body(
	T* x,
	int n) {
	if (n) { deep<T>(x); }
}
__device__ int plain(int n) { return n; }
#define OP(name, T) extern "C" __global__ void name(T* x, int n) { body<T>(x, n); }
OP(op_waits, half)
#define BODY(T) body<T>(x, n);
#define NESTED(name, T) extern "C" __global__ void name(T* x, int n) { BODY(T) }
NESTED(op_waits_in_a_macro, half)
extern "C" __global__ void __launch_bounds__(64) op_waits_itself(int n) { let_next(); after_previous(); }
extern "C" __global__ void op_does_not(int n) { plain(n); }
`
	text := expanded(source)
	kernels, err := parse("op", text, waits(text, nil))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, k := range kernels {
		got[k.Name] = k.Dependent
	}
	if want := map[string]bool{"op_waits": true, "op_waits_in_a_macro": true, "op_waits_itself": true, "op_does_not": false}; !maps.Equal(got, want) {
		t.Errorf("dependent: %v, want %v", got, want)
	}
}

// A kernel that waits in a function of a header waits, and a name is the constant of the headers that are included, not of others.
func TestHeaders(t *testing.T) {
	dir := fstest.MapFS{
		"a.cuh":    {Data: []byte("constexpr int most = 4;\n__device__ void deep() { after_previous(); }\n")},
		"b.cuh":    {Data: []byte("#include \"a.cuh\"\n__device__ void body(int n) { deep(); }\n")},
		"c.cuh":    {Data: []byte("constexpr int most = 8;\n__device__ void body(int n) {}\n")},
		"one.cu":   {Data: []byte("#include \"b.cuh\"\nconstexpr int twice = 2 * most;\nextern \"C\" __global__ void one(int n) { body(n); }\n")},
		"plain.cu": {Data: []byte("#include \"c.cuh\"\nconstexpr int twice = 2 * most;\nextern \"C\" __global__ void plain(int n) { body(n); }\n")},
	}
	text, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(string(text)), " ")
	for _, want := range []string{`{"one", "one", true}`, `{"plain", "plain", false}`, "one_twice = 2 * a_most", "plain_twice = 2 * c_most"} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestConstants(t *testing.T) {
	got, err := constants("op", "constexpr int rows = 64;  // a block\nconstexpr int a = 1, b = a << 2;\nconstexpr int all = (rows + b) * 2;\n\tconstexpr int inner = 3;\nconstexpr int both = 2 * shared;\ntemplate <int a, int b>\nconstexpr int of = a < b ? a : b;\n", map[string]string{"shared": "head_shared"})
	want := []constant{{"op_rows", "64"}, {"op_a", "1"}, {"op_b", "op_a << 2"}, {"op_all", "(op_rows + op_b) * 2"}, {"op_both", "2 * head_shared"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := constants("op", "constexpr int n = T::rows;\n", nil); err == nil {
		t.Error("a value that launchers cannot read passes")
	}
}

func TestSameNameTwice(t *testing.T) {
	dir := fstest.MapFS{
		"op.cu":   {Data: []byte(`extern "C" __global__ void op_a(int n) {}`)},
		"op_a.cu": {Data: []byte(`extern "C" __global__ void op_a(int n) {}`)},
	}
	if _, err := generate(dir); err == nil || !strings.Contains(err.Error(), "op_a is in op.cu, too") {
		t.Error(err)
	}
}
