"""C types of elements in memory and in registers.

Both are the same for most dtypes. A bfloat16 is the upper half of a float: it is widened when it is
read, computed with as a float, and rounded when it is stored.
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

CASTS = {"bfloat16": "BFLOAT16({0})", "uint32": "UINT32({0})", "uint64": "UINT64({0})"}
"""Formulas of casts to a dtype, which give what eager mode gives.

A bfloat16 is rounded also where the result is not stored.
"""

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
    if name in ("bool", "bfloat16"):
        return "unsigned char" if name == "bool" else name
    return in_c(TYPES[name])


def register(dtype: Any) -> str:
    """Return the C type of an element that is kept between statements."""
    return "float" if name_of(dtype) == "bfloat16" else storage(dtype)


def loaded(dtype: Any, place: str) -> str:
    """Return the expression that reads an element in memory."""
    name = name_of(dtype)
    if name == "bool":
        return f"{place} != 0"
    return f"from_bfloat16({place})" if name == "bfloat16" else place


def stored(dtype: Any, value: str) -> str:
    """Return the expression of what is written to memory for a value."""
    return f"to_bfloat16({value})" if name_of(dtype) == "bfloat16" else value
