// Functions of gates.
#pragma once
#include "act.cuh"

struct Logistic {
	__device__ static float of(float x) { return over_exp(1, x); }
};

// ln(1 + e^x), which is max(x, 0) + ln(1 + e^-|x|).
struct Softplus {
	__device__ static float of(float x) { return fmaxf(x, 0) + log1pf(__expf(-fabsf(x))); }
};
