// Gated units whose operands may be limited.
#pragma once

#include "act.cuh"
#include "half.cuh"

constexpr int clamped = -1;  // no function's number

// limited is (u + added)·g·σ(alpha·g), with g = min(gate, limit) and u = up limited to ±most (device.Clamp).
__device__ inline float limited(float gate, float up, float limit, float most, float alpha, float added) {
	float g = fminf(gate, limit);
	return (fmaxf(fminf(up, most), -most) + added) * over_exp(g, alpha * g);
}

// A Unit is what experts make of their gate and up (device.Unit): act(gate)·up, or what is limited.
struct Unit {
	int act;  // or clamped
	float limit, most, alpha, added;

	__device__ float operator()(float gate, float up) const { return act == clamped ? limited(gate, up, limit, most, alpha, added) : activate(act, gate) * up; }

	__device__ void eight(Eight<half>& gate, const Eight<half>& up) const;
};

// other_units is not in line: the code of all functions, eight times, costs 2 % of a step of many sequences.
__device__ __noinline__ uint4 other_units(Unit unit, uint4 gate, uint4 up) {
	Eight<half> g, u;
	g.words[0] = gate, u.words[0] = up;
#pragma unroll
	for (int j = 0; j < 8; j++) narrow(g.v[j], unit(widen(g.v[j]), widen(u.v[j])));
	return g.words[0];
}

// eight leaves units of eight in gate.
__device__ inline void Unit::eight(Eight<half>& gate, const Eight<half>& up) const {
	if (act != 0) {
		gate.words[0] = other_units(*this, gate.words[0], up.words[0]);
		return;
	}
#pragma unroll
	for (int j = 0; j < 8; j++) narrow(gate.v[j], SiLU::of(widen(gate.v[j])) * widen(up.v[j]));
}
