package arch

// Stored says that the source keeps matrices otherwise than each as one tensor
// [out, in] of its name with ".weight", and its bias with ".bias".
type Stored struct {
	// Weight and Bias are whole tensor names inside a layer; a "*" stands for
	// the expert, where each has tensors of its own. Bias is empty if there is
	// none.
	Weight, Bias string

	// Holds lists the matrices in the tensor, in order, by their names in Names.
	Holds []string
	Order Order

	// Transposed: the tensor is [in, out] (GPT-2's Conv1D), and Order is that of
	// its columns. Biases are not concerned.
	Transposed bool

	// Stacked: the tensor, and the bias, have one more dimension in front, the
	// expert. Flat: the expert's rows follow one another instead, [experts·rows,
	// columns] (DBRX).
	Stacked, Flat bool
}

// Order says how the outputs of several matrices follow one another.
type Order uint8

const (
	// Blocks: all of the first matrix, all of the second, …
	Blocks Order = iota
	// ByHead, for q, k and v: for each head of keys the heads of queries that
	// read it, the head of keys, the head of values (GPT-NeoX, InternLM 2).
	ByHead
	// Alternating: an output of each in turn (gpt-oss).
	Alternating
)
