package devtest

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/cpu"
)

// quantizeGroups lists the cases of every operation of device.Quantize.
func quantizeGroups() []group {
	return []group{
		{"Gram", withGaps(gramCases())},
		{"Grams", gramsCases()},
		{"Difference", withGaps(differenceCases())},
		{"Take", takeCases()},
		{"TakeT", takeTCases()},
		{"TakeColumns", takeColumnsCases()},
		{"PutColumns", putColumnsCases()},
		{"Feeds", feedsCases()},
		{"ByNorms", withGaps(byNormsCases())},
		{"JoinMoments", joinCases()},
		{"Diagonal", diagonalCases()},
		{"AddDiagonal", addDiagonalCases()},
		{"InverseFactor", inverseFactorCases()},
		{"InverseFactors", inverseFactorsCases()},
		{"Solve", solveCases()},
		{"SubtractProduct", subtractProductCases()},
		{"Dot", withGaps(dotCases())},
		{"Distances", withGaps(distancesCases())},
		{"LogLikelihood", withGaps(likelihoodCases())},
		{"SearchScale", searchScaleCases()},
		{"GPTQ", gptqCases()},
		{"Descend", descendCases()},
		{"Pairs", pairsCases()},
		{"Values", valuesCases()},
		{"Pack", packCases()},
		{"Assemble", assembleCases()},
	}
}

// RunQuantize checks every operation of device.Quantize, as Run does those of
// device.Device. Operations that may allocate workspace are called twice instead
// of being recorded.
func RunQuantize(t *testing.T, open func(t testing.TB) device.Quantize) {
	ref, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range quantizeGroups() {
		t.Run(g.name, func(t *testing.T) {
			d := opened(t, func(t testing.TB) device.Device { return open(t) })
			runCases(t, ref, d, g.cases)
		})
	}
	t.Run("QuantizeWorkspace", func(t *testing.T) {
		d := open(t)
		defer d.Close()
		one, many := d.QuantizeWorkspace(4096, 4096, 1), d.QuantizeWorkspace(4096, 4096, 20)
		if none := d.QuantizeWorkspace(4096, 4096, 0); none != 0 || one <= 0 || many < one {
			t.Errorf("%d bytes for no matrix, %d for one, %d for twenty", none, one, many)
		}
	})
}

// quantizing is the call of an operation of device.Quantize.
func quantizing(call func(d device.Quantize)) func(device.Device) {
	return func(d device.Device) { call(d.(device.Quantize)) }
}
