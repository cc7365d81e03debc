// What rotary positions and their gradients share.
//
// The product of position and frequency is exact in float64 (20 bits of position,
// 24 of frequency), and is reduced to half a turn there: float32 would be off by
// 0.06 at position 1e6.
#pragma once

// turn returns the cosine and sine of an angle.
__device__ inline float2 turn(double angle) {
	double turns = angle * 0.15915494309189535;  // 1/2π
	float half_turns = (float)(2 * (turns - rint(turns)));
	float2 t;
	sincospif(half_turns, &t.y, &t.x);
	return t;
}

enum Pairing { split, interleaved };
