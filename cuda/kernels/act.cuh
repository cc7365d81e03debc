// Activation functions.
#pragma once

// over_exp is x / (1 + e^-z), good to a few units in the last place of float32.
// Where e^-z is over 2^126 it is 0, as it is to fp16.
__device__ inline float over_exp(float x, float z) { return __fdividef(x, 1 + __expf(-z)); }

struct SiLU {
	__device__ static float of(float x) { return over_exp(x, x); }
};

// x·Φ(x); erfc keeps the precision that 1 + erf loses where x is negative.
struct GELU {
	__device__ static float of(float x) { return 0.5f * x * erfcf(x * -0.70710678f); }
};

// x·(1 + tanh z)/2 is x / (1 + e^-2z).
struct GELUTanh {
	__device__ static float of(float x) { return over_exp(x, 1.5957691f * (x + 0.044715f * x * x * x)); }
};

struct ReLU {
	__device__ static float of(float x) { return x < 0 ? 0 : x; }
};

// activate applies the function that has a number, as device.Act counts.
__device__ inline float activate(int act, float x) {
	switch (act) {
		case 0: return SiLU::of(x);
		case 1: return GELU::of(x);
		case 2: return GELUTanh::of(x);
		default: return ReLU::of(x);
	}
}
