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

import re

from tapegrad.core.trace.c_source import Spellings

SPELLINGS: Spellings = {
    "divide": lambda node: "quotient({0}, {1})",
    "reciprocal": lambda node: "quotient(({T})1, {0})",
    "rsqrt": lambda node: "quotient(({T})1, root({0}))",
    "sqrt": lambda node: "root({0})",
}
"""How these functions of real operands are written."""

_DEFINITIONS = r"""
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
// Where the remainder is NaN, because of zeros and infinities, the first quotient is right. It is
// right where it is zero, too, and has a sign then.
__device__ __forceinline__ float quotient(float a, float b) {
    // The reciprocal of a huge number would be subnormal.
    const bool is_huge = fabs(b) > 0x1p+125f;
    a = is_huge ? a * 0.125f : a;
    b = is_huge ? b * 0.125f : b;
    const float r = about_reciprocal(b), q = a * r;
    const float better = fmaf(fmaf(-b, q, a), r, q);
    return q != 0.0f && better == better ? better : q;
}
__device__ __forceinline__ float root(float x) {
    const float r = about_rsqrt(x), s = x * r;
    const float better = fmaf(fmaf(-s, s, x), 0.5f * r, s);
    return better == better ? better : x < 0.0f ? r : x;
}
template <class A, class B> __device__ __forceinline__ auto quotient(A a, B b) { return a / b; }
template <class A> __device__ __forceinline__ auto root(A x) { return sqrt(x); }
"""


def definitions_for(text: str) -> str:
    """Return the definitions of what a source calls, "" if it calls none of them."""
    return _DEFINITIONS if re.search(r"\b(quotient|root)\(", text) else ""
