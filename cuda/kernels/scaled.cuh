// Powers of two by which rows of factors and moments are lifted: operand.cu says
// how. Products with powers of two are exact.
#pragma once

#include "planes.cuh"

enum Lift { by_largest, by_diagonal, by_root, by_eight };

constexpr float eight = 8, diagonal_lift = 32;

// step_of returns the power of two at or under a diagonal element, and root_of one
// near its root.
__device__ inline float step_of(float x) { return power(min(max(exponent(x), -100), 100)); }
__device__ inline float root_of(float x) { return power(exponent(x) >> 1); }

// row_lift returns the factor of a row whose diagonal element is x, except that
// columns are divided by their roots, too.
__device__ inline float row_lift(int how, float x) { return diagonal_lift / (how == by_root ? root_of(x) : step_of(x)); }
