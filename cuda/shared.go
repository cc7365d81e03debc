package cuda

// anyShared is how much shared memory every launch may use, what the kernel declares
// itself among it.
const anyShared = 48 << 10

// blockOwn is what a block takes of shared memory for itself.
const blockOwn = 1 << 10

// sharedFor returns how much dynamic shared memory there is for a kernel: what a block may
// have, less what the kernel declares itself.
func (d *Device) sharedFor(k kernel) int { return d.sharedOf(k, 1) }

// sharedOf is of so many blocks of a multiprocessor, of which each takes some more.
func (d *Device) sharedOf(k kernel, blocks int) int {
	return (d.shared+blockOwn)/blocks - blockOwn - d.function(k).own
}

// allow raises the dynamic shared memory that a kernel may be launched with.
func (d *Device) allow(f *function, name string, shared int) bool {
	if shared <= f.shared {
		return true
	}
	const maxDynamicShared = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	if !d.do("shared memory of "+name, cuFuncSetAttribute, f.handle, maxDynamicShared, uintptr(shared)) {
		return false
	}
	f.shared = shared
	return true
}

// makeRoom has a multiprocessor that runs a kernel give all it can to shared memory, and
// not what the kernel takes alone: it cannot change that while blocks are there.
func (d *Device) makeRoom(f *function, name string) bool {
	const carveout, percent = 9, 100 // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
	if !f.beside {
		f.beside = d.do("shared memory of "+name, cuFuncSetAttribute, f.handle, carveout, percent)
	}
	return f.beside
}

// sharedSizes are the bytes of a multiprocessor's memory that may be shared memory (CUDA C++ Programming Guide, compute capability 9.0).
var sharedSizes = [...]int{8 << 10, 16 << 10, 32 << 10, 64 << 10, 100 << 10, 132 << 10, 164 << 10, 196 << 10, 228 << 10}

// sharedBeside is what a block has to ask for, and leave unused, so that a multiprocessor, of whose memory no more is made shared memory than its
// blocks ask for, has room for others that take so much; or, if that cannot be, what it takes. A preference for more (launch.beside) would be that of all
// launches of the kernel, and take first-level cache from long contexts.
func sharedBeside(shared, others int) int {
	least := shared
	for _, size := range sharedSizes {
		switch room := size - blockOwn - least; {
		case room >= others:
			return least
		case room >= 0:
			least = size - blockOwn + 16 // the next size
		}
	}
	return shared
}
