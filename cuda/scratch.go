package cuda

import (
	"fmt"

	"exl2/internal/tensor"
)

// The uses of scratch memory.
type scratchUse int

const (
	scratchInputs scratchUse = iota
	scratchOrdered
	scratchWeights
	scratchRing
	scratchSums
	scratchStats
	scratchCounters // zeros, and left so by those who use them
	scratchState    // the same
	scratchLeft     // the same
	scratchMeet     // the same
	scratchList
	scratchTurns
	scratchPlaces
	scratchLinked
	scratchSquares
	scratchGiven
	scratchDelta
	scratchGates
	scratchOpened
	scratchSharers // zeros, as scratchCounters
	scratchLatents
	scratchShared
	scratchMade
	scratchUses
)

// turnBytes is what turning heads takes of a row.
const turnBytes = 4*128 + 4

// Workspace is the scratch memory of products, and of attention: at most a row's
// sums for every block that keeps the GPU busy.
func (d *Device) Workspace(rows, width int) int {
	const attention = 64 << 20
	const squares = (2*mostLinked + 1) * link_squares_stride
	n := rows*(width*tensor.F16.Size()+turnBytes) + decodedBytes + attention + squares*tensor.F32.Size() + 2*mostLinked*width*tensor.F16.Size()
	if d.hopper() && rows >= tiledRows {
		n += ringBytes
	}
	return n
}

// scratch returns memory for one operation at a time. Blocks that have become
// too small are kept until Close: recordings hold their addresses.
func (d *Device) scratch(use scratchUse, t tensor.Type, rows, cols int) tensor.Tensor {
	have := d.scratches[use]
	if need := rows * cols * t.Size(); have.Bytes() < need {
		if d.recording {
			panic(fmt.Sprintf("cuda: recording an operation with %v of scratch memory that was not issued before", tensor.New(t, rows, cols, nil)))
		}
		have = d.Alloc(tensor.U8, 1, need)
		d.scratches[use] = have
	}
	have.Type, have.Rows, have.Cols, have.Stride = t, rows, cols, cols
	return have
}
