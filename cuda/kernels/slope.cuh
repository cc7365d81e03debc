// Functions of gates with their derivatives.
#pragma once

// Slope is a function at a number, and its derivative.
struct Slope {
	float value, slope;
};

__device__ inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

struct Logistic {
	__device__ static Slope at(float x) {
		float s = sigmoid(x);
		return {s, s * sigmoid(-x)};
	}
};

struct Softplus {
	__device__ static Slope at(float x) { return {fmaxf(x, 0) + log1pf(expf(-fabsf(x))), sigmoid(x)}; }
};
