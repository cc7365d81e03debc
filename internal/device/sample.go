package device

import "exl2/internal/tensor"

// Sampling says how Sample chooses, for each row by itself.
type Sampling struct {
	Settings tensor.Tensor // F32 [rows, sampling.Columns]: sampling.Settings
	Seeds    tensor.Tensor // I32 [rows, 2]: of random numbers, low and high half

	// Seen, I32 [rows, columns], says how often each token was seen. Absent, there
	// are no penalties.
	Seen tensor.Tensor
}
