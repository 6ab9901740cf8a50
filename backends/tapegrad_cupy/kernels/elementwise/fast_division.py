"""Division and square roots of floats without branches.

The quotient that CUDA gives by default is rounded exactly. It tests for extreme operands and jumps,
so that the operations of several elements cannot overlap: a loop over pairs with a sigmoid in it
takes 3.4 times as long as with the fast quotient of the hardware (H200). The functions below start
from that one, which is off by up to two units in the last place, and correct it by the remainder.
Then quotients and roots that are floats are exact, and others are off by hardly more than half a
unit. As everywhere in CuPy, subnormal numbers count as zero; so do remainders of numbers below
2**-100, whose quotients and roots are off by up to two units.
"""

from __future__ import annotations

from tapegrad.core.trace.c_source import Spellings

SPELLINGS: Spellings = {
    "divide": lambda node: "quotient({0}, {1})",
    "reciprocal": lambda node: "quotient(({T})1, {0})",
    "rsqrt": lambda node: "quotient(({T})1, root({0}))",
    "sqrt": lambda node: "root({0})",
}
"""How these functions of real operands are written."""

_FUNCTIONS = r"""
#ifndef TAPEGRAD_QUOTIENT
#define TAPEGRAD_QUOTIENT
#ifdef __CUDA_ARCH__
__device__ __forceinline__ float about_reciprocal(float x) {
    float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;
}
__device__ __forceinline__ float about_rsqrt(float x) {
    float y; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;
}
#else
__device__ __forceinline__ float about_reciprocal(float x) { return 1.0f / x; }
__device__ __forceinline__ float about_rsqrt(float x) { return 1.0f / sqrt(x); }
#endif
// Where the remainder is NaN, because of zeros and infinities, the first quotient is right. So it is
// where it is zero, with its sign.
__device__ __forceinline__ float quotient(float a, float b) {
    // The reciprocal of a huge number would be subnormal.
    const float scale = fabs(b) > 0x1p+125f ? 0.125f : 1.0f, x = a * scale, y = b * scale;
    const float r = about_reciprocal(y), q = x * r;
    const float better = fmaf(fmaf(-y, q, x), r, q);
    return q != 0.0f && better == better ? better : q;
}
__device__ __forceinline__ float root(float x) {
    const float r = about_rsqrt(x), s = x * r;
    const float better = fmaf(fmaf(-s, s, x), 0.5f * r, s);
    return better == better ? better : x < 0.0f ? r : x;
}
template <class A, class B> __device__ __forceinline__ auto quotient(A a, B b) { return a / b; }
template <class A> __device__ __forceinline__ auto root(A x) { return sqrt(x); }
#endif
"""


def functions_for(text: str) -> str:
    """Return the definitions of what a source calls, "" if it calls none of them."""
    return _FUNCTIONS if "quotient(" in text or "root(" in text else ""
