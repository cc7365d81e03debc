// Package devtest checks any device against the CPU, which is the reference,
// and measures it.
//
// The nouns: a case is one call of an operation with its operands, which a
// fixture allocates on a device. An operand stands between guard rows that no
// operation may touch and that hold NaN, so that what is read past the end
// shows; what is to be written holds NaN before. A case runs on the reference
// and on the device under test, there once as it is and then recorded and
// replayed twice, with the same result bit for bit. A limit says how far the
// devices may differ, and why.
//
// Inputs are patterns, not random numbers: see values.go. Inputs that a device
// holds as fp16 are rounded to fp16 for the reference, too.
package devtest

import (
	"errors"
	"math"
	"testing"

	"exl2/internal/device"
)

// A testCase is one call of an operation: build allocates its operands and
// returns the call.
type testCase struct {
	name   string
	limit  limit
	build  func(f *fixture) func(d device.Device)
	gap    int  // guard columns of activations and of the residual stream
	direct bool // the call is repeated, and not recorded
}

// withGaps returns cases and, once more, every third of them with activations
// and the residual stream as ranges of columns of wider tensors.
func withGaps(cases []testCase) []testCase {
	all := cases
	for i := 1; i < len(cases); i += 3 {
		c := cases[i]
		c.name, c.gap = c.name+" gaps", gap
		all = append(all, c)
	}
	return all
}

// A group is the cases of one operation.
type group struct {
	name  string
	cases []testCase
}

// groups lists the cases of every operation.
func groups() []group {
	return []group{
		{"Embed", withGaps(embedCases())},
		{"Norm", withGaps(normCases())},
		{"HeadNorm", withGaps(headNormCases())},
		{"MatMulHeads", withGaps(headMulCases())},
		{"Rope", withGaps(ropeCases())},
		{"Store", withGaps(storeCases())},
		{"GatedDelta", withGaps(gatedDeltaCases())},
		{"HeadNormGated", withGaps(headNormGatedCases())},
		{"GatedNorm", withGaps(gatedNormCases())},
		{"ShortConv", withGaps(shortConvCases())},
		{"ActMul", withGaps(actMulCases())},
		{"AddScaled", withGaps(addScaledCases())},
		{"Cap", withGaps(capCases())},
		{"Sample", withGaps(sampleCases())},
		{"Advance", advanceCases()},
		{"Copy", withGaps(copyCases())},
		{"MatMul", withGaps(matMulCases())},
		{"Decode", decodeCases()},
		{"QMatMul", withGaps(qMatMulCases())},
		{"Products", withGaps(fusedCases(math.MaxInt))},
		{"Products of many matrices", readersCases(math.MaxInt)},
		{"Products without a norm", plainGateCases(math.MaxInt)},
		{"Products activated", activatedCases(math.MaxInt)},
		{"Normed sums of products", normedSumCases()},
		{"Products of odd rows", oddRowsCases()},
		{"Products that turn", withGaps(turnedCases())},
		{"Joined", withGaps(joinedCases())},
		{"Decode affine", affineDecodeCases()},
		{"QMatMul affine", withGaps(affineCases())},
		{"Attend", withGaps(attendCases())},
		{"Mix", withGaps(mixCases())},
		{"Attention", withGaps(attentionCases())},
		{"MixLatent", withGaps(latentCases())},
		{"LinearAttention", withGaps(linearCases())},
		{"ActMulFor", withGaps(actMulForCases())},
		{"MatMulGated", withGaps(gatedCases())},
		{"Sum", withGaps(sumCases())},
		{"ActMul alone", withGaps(actAloneCases())},
		{"HeadGates", withGaps(headGatesCases())},
		{"XIELU", withGaps(xieluCases())},
		{"ClampMul", withGaps(clampMulCases())},
		{"Clip", withGaps(clipCases())},
		{"Route", withGaps(routeCases())},
		{"GroupMul", withGaps(groupMulCases())},
		{"Choose", withGaps(chooseCases())},
		{"MixExperts", withGaps(mixExpertsCases())},
		{"Mixture", withGaps(rowMixtureCases())},
		{"Mixture of odd rows", oddMixtureCases()},
		{"Mixture linked", linkedMixtureCases()},
		{"Gather", withGaps(gatherCases())},
		{"Combine", withGaps(combineCases())},
		{"Attend with sinks", withGaps(attendMoreCases())},
		{"Attend to latents", withGaps(attendLatentCases())},
	}
}

// Run checks every operation of the devices that open returns, which Run closes.
// A device is opened for each operation, so that one that fails leaves the
// others their tests.
func Run(t *testing.T, open func(t testing.TB) device.Device) {
	RunSome(t, func(string, int) bool { return true }, open)
}

// RunSome is Run of those cases alone, by operation and number, that are chosen.
func RunSome(t *testing.T, choose func(operation string, i int) bool, open func(t testing.TB) device.Device) {
	for _, whole := range []struct {
		name string
		run  func(t *testing.T, open func(t testing.TB) device.Device)
	}{{"Memory", testMemory}, {"Record", testRecord}, {"TokenRing", testTokenRing}, {"Failure", testFailure}, {"Panics", testPanics}} {
		if choose(whole.name, 0) {
			t.Run(whole.name, func(t *testing.T) { whole.run(t, open) })
		}
	}
	runSome(t, groups(), choose, open)
}

func runSome(t *testing.T, groups []group, choose func(operation string, i int) bool, open func(t testing.TB) device.Device) {
	ref := CPU(t)
	for _, g := range groups {
		var cases []testCase
		for i, c := range g.cases {
			if choose(g.name, i) {
				cases = append(cases, c)
			}
		}
		if len(cases) > 0 {
			t.Run(g.name, func(t *testing.T) { runCases(t, ref, opened(t, open), cases) })
		}
	}
}

// RunFewRows checks only what plans for the shared memory that there is: products of few rows, and latent attention.
func RunFewRows(t *testing.T, open func(t testing.TB) device.Device) {
	for _, g := range []group{{"Products", fusedCases(16)}, {"Products of many matrices", readersCases(16)}, {"Products without a norm", plainGateCases(16)}, {"Products activated", activatedCases(16)}, {"Normed sums of products", normedSumCases()}, {"Products of odd rows", oddRowsCases()}, {"Mixture", rowMixtureCases()}, {"Mixture of odd rows", oddMixtureCases()}, {"Mixture linked", linkedMixtureCases()}, {"MixLatent", latentCases()}} {
		t.Run(g.name, func(t *testing.T) { runCases(t, CPU(t), opened(t, open), g.cases) })
	}
}

// opened returns a device that is closed when the test ends.
func opened(t *testing.T, open func(t testing.TB) device.Device) device.Device {
	d := open(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return d
}

// runCases checks the cases of one operation, up to one that breaks the device.
// An operation that the device says it lacks is skipped.
func runCases(t *testing.T, ref, d device.Device, cases []testCase) {
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := verify(ref, d, c); errors.Is(err, device.ErrUnsupported) {
				t.Skip(err)
			} else if err != nil {
				t.Error(err)
			}
		})
		if err := d.Sync(); errors.Is(err, device.ErrUnsupported) {
			t.Skip(err)
		} else if err != nil {
			t.Fatalf("%v; %d cases are left out", err, len(cases)-i-1)
		}
	}
}
