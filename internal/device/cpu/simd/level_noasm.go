//go:build !amd64

package simd

// Supported returns None: there is assembly for x86-64 only.
func Supported() Level { return None }

func kernelsOf(Level) kernels { return kernels{} }
