// How a kernel says that what it was given makes no sense: it fills in a word
// that the host reads when it next waits. The first fault is kept.
#pragma once

// What is wrong; fault.go has the same list.
enum Fault { token_fault = 1, position_fault = 2 };

__device__ inline void report(
	int* fault,  // [3]: kind, value, limit
	Fault kind, int value, int limit) {
	if (atomicCAS(fault, 0, kind) != 0) return;
	fault[1] = value;
	fault[2] = limit;
}
