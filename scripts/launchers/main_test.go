package main

import (
	"os"
	"path/filepath"
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
		kernels, err := parse("op", c.source)
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

func TestSameNameTwice(t *testing.T) {
	dir := fstest.MapFS{
		"op.cu":   {Data: []byte(`extern "C" __global__ void op_a(int n) {}`)},
		"op_a.cu": {Data: []byte(`extern "C" __global__ void op_a(int n) {}`)},
	}
	if _, err := generate(dir); err == nil || !strings.Contains(err.Error(), "op_a is in op.cu, too") {
		t.Error(err)
	}
}
