"""C types of elements in memory and in registers.

Both are the same for most dtypes. Numbers in half precision are widened when they are read,
computed with as floats, and rounded when they are stored. A bfloat16 is the upper half of a float.
"""

from __future__ import annotations

import functools
from typing import Any

from tapegrad.core.trace.c_source import TYPES

BFLOAT16_TEXT = """
typedef unsigned short bfloat16;
static INLINE float from_bfloat16(bfloat16 x) {
    union { unsigned u; float x; } bits = {.u = (unsigned)x << 16};
    return bits.x;
}
/* Rounds to nearest, ties to even. A NaN stays one, although its lower bits are lost. */
static INLINE bfloat16 to_bfloat16(float x) {
    union { float x; unsigned u; } bits = {.x = x};
    unsigned rounded = bits.u + 0x7fffu + ((bits.u >> 16) & 1u);
    unsigned mask = -(unsigned)(x != x);
    return (bfloat16)(((rounded & ~mask) | ((bits.u | 0x400000u) & mask)) >> 16);
}
#define BFLOAT16(x) from_bfloat16(to_bfloat16(x))
"""

FLOAT16_TEXT = """
/* By arithmetic on bits, because GCC does not vectorise the conversions of processors. */
typedef unsigned short float16;
static INLINE float from_float16(float16 x) {
    const unsigned u = x, sign = (u & 0x8000u) << 16, rest = (u & 0x7fffu) << 13;
    const float y = from_bits_float((int)rest) * 0x1p112f;
    const unsigned far = -(unsigned)(y >= 0x1p16f) & 0x7f800000u; /* infinity and NaN */
    return from_bits_float((int)((unsigned)bits_float(y) | far | sign));
}
/* Rounds to nearest, ties to even. The sum with 1/2 has the spacing of subnormal numbers. */
static INLINE float16 to_float16(float x) {
    const unsigned u = (unsigned)bits_float(x), a = u & 0x7fffffffu;
    const unsigned normal = (a + 0xfffu + ((a >> 13) & 1u) - (112u << 23)) >> 13;
    const unsigned small = (unsigned)bits_float(from_bits_float((int)a) + 0.5f) - 0x3f000000u;
    const unsigned special = 0x7c00u | (-(unsigned)(x != x) & 0x200u);
    const unsigned is_small = -(unsigned)(a < 0x38800000u), is_far = -(unsigned)(a >= 0x477ff000u);
    const unsigned near = (normal & ~is_small) | (small & is_small);
    return (float16)((near & ~is_far) | (special & is_far) | (u >> 16 & 0x8000u));
}
/* Rounded to odd, so that rounding to half precision afterwards gives what rounding once gives. */
static INLINE float odd_float(double x) {
    const float y = (float)x;
    const unsigned beyond = magnitude_double(y) > magnitude_double(x), exact = (double)y == x;
    return from_bits_float((int)(((unsigned)bits_float(y) - beyond) | !exact));
}
#define FLOAT16(x) from_float16(to_float16(_Generic((x), double: odd_float(x), default: (x))))
"""

UNSIGNED_TEXT = """
/* C leaves open what a number that is out of range becomes. NumPy's numbers wrap around on x86-64;
   the conversions of AVX-512 give the largest number. */
#ifdef __x86_64__
static INLINE unsigned to_uint32(double x) {
    return x >= 0x1p31 ? (unsigned)(int)(x - 0x1p31) ^ 1u << 31 : (unsigned)(int)x;
}
static INLINE unsigned long long to_uint64(double x) {
    return x >= 0x1p63 ? (unsigned long long)(long long)(x - 0x1p63) ^ 1ull << 63
                       : (unsigned long long)(long long)x;
}
#define UINT32(x) _Generic((x), float: to_uint32(x), double: to_uint32(x), default: (unsigned)(x))
#define UINT64(x) \\
    _Generic((x), float: to_uint64(x), double: to_uint64(x), default: (unsigned long long)(x))
#else
#define UINT32(x) (unsigned)(x)
#define UINT64(x) (unsigned long long)(x)
#endif
"""

CASTS = {"bfloat16": "BFLOAT16({0})", "float16": "FLOAT16({0})"} | {
    "uint32": "UINT32({0})", "uint64": "UINT64({0})"
}  # fmt: skip
"""Formulas of casts to a dtype, which give what eager mode gives.

Half precision is rounded also where the result is not stored.
"""

HALVES = ("bfloat16", "float16")
"""The dtypes of half precision."""

_COMPLEX_TYPES = {"complex<float>": "cfloat", "complex<double>": "cdouble"}


def in_c(text: str) -> str:
    """Replace the names of types of C++."""
    if "complex<" not in text:
        return text
    for name, own in _COMPLEX_TYPES.items():
        text = text.replace(name, own)
    return text


@functools.cache
def name_of(dtype: Any) -> str:
    """Return the name of a dtype, cached because NumPy builds it on each access."""
    return str(dtype.name)


def storage(dtype: Any) -> str:
    """Return the C type of an element in memory."""
    name = name_of(dtype)
    if name in ("bool", *HALVES):
        return "unsigned char" if name == "bool" else name
    return in_c(TYPES[name])


def register(dtype: Any) -> str:
    """Return the C type of an element that is kept between statements."""
    return "float" if name_of(dtype) in HALVES else storage(dtype)


def loaded(dtype: Any, place: str) -> str:
    """Return the expression that reads an element in memory."""
    name = name_of(dtype)
    if name == "bool":
        return f"{place} != 0"
    return f"from_{name}({place})" if name in HALVES else place


def stored(dtype: Any, value: str) -> str:
    """Return the expression of what is written to memory for a value."""
    name = name_of(dtype)
    return f"to_{name}({value})" if name in HALVES else value
