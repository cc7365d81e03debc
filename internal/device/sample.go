package device

import "exl2/internal/tensor"

// Sampling says how Sample chooses, for each row by itself, and where the tokens go.
type Sampling struct {
	Settings tensor.Tensor // F32 [rows, sampling.Columns]: sampling.Settings
	Seeds    tensor.Tensor // I32 [rows, 2]: of random numbers, low and high half

	// Seen, I32 [rows, columns], says how often each token was seen. Absent, there
	// are no penalties.
	Seen tensor.Tensor

	// What is known of the settings: that every row has the most likely token, or that
	// none has a filter that counts tokens or shares (top-k, top-p, typical).
	Greedy, Unfiltered bool

	Next    tensor.Tensor // I32 [1, rows]: the tokens once more, for the next step to embed; may be absent
	Advance bool          // adds one to the positions: those of the next step
	Ring    TokenRing     // may be nil
}

// RingEntries is how many entries of a row a TokenRing keeps.
const RingEntries = 64

// A TokenRing is a ring buffer of tokens that Sample has chosen, for the host to read
// while later operations run. Each row has entries of its own, numbered one after the
// other; an entry is lost when RingEntries more have been made.
type TokenRing interface {
	// Begin has n, which is over 0, be the number of the next entry of every row.
	Begin(n int)
	// Read waits until each of the first rows has entry n, and returns them: a token,
	// or, where a logit was not finite, -1 minus the first such column. The error is the
	// first failure until then.
	Read(n, rows int) ([]int32, error)
	// Beside reports whether operations run beside the host, so that it may begin
	// steps in front of those whose tokens it has read.
	Beside() bool
	Free()
}
