// Shares of some work.
#pragma once

// Range is some of something, from one to another.
struct Range {
	int from, to;
	__device__ int size() const { return to - from; }
};

// quotient returns n / by, of numbers below 2^20.
__device__ inline int quotient(int n, int by) { return (int)__fdividef(n + 0.5f, by); }
