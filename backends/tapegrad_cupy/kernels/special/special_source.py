"""Building blocks of the special functions in CUDA: coefficient tables, polynomials, logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

BLOCKS = r"""
namespace tapegrad {

#define PI 3.141592653589793
#define HALF_LOG_TWO_PI 0.9189385332046728

__device__ __forceinline__ double infinity() { return __longlong_as_double(0x7ff0000000000000LL); }
__device__ __forceinline__ double not_a_number() { return nan(""); }

// Horner's rule, from the highest power down.
template <int N> __device__ __forceinline__ double polynomial(const double (&c)[N], double x) {
    double y = c[0];
    #pragma unroll
    for (int k = 1; k < N; ++k) y = y * x + c[k];
    return y;
}

template <int N, int M> __device__ __forceinline__
double rational(const double (&numerator)[N], const double (&denominator)[M], double x) {
    return polynomial(numerator, x) / polynomial(denominator, x);
}
"""

END = "\n}  // namespace tapegrad\n"


def c_array(name: str, values: Sequence[float]) -> str:
    """Return the definition of an array in constant memory, with exact values."""
    return f"__constant__ double {name}[] = {{{', '.join(repr(float(v)) for v in values)}}};\n"


def c_matrix(name: str, rows: Sequence[Sequence[float]]) -> str:
    """Return the definition of a matrix; zeros, as highest powers, precede short rows."""
    width = max(len(row) for row in rows)
    padded = [[0.0] * (width - len(row)) + list(row) for row in rows]
    lines = ", ".join(f"{{{', '.join(repr(float(v)) for v in row)}}}" for row in padded)
    return f"__constant__ double {name}[{len(rows)}][{width}] = {{{lines}}};\n"


def c_tables(module: ModuleType, names: str) -> str:
    """Return the named coefficient tables of a module of the NumPy backend, with the same names.

    They are read from the NumPy backend so that there is only one copy, which is tested there.
    """
    return "".join(c_array(name, getattr(module, name)) for name in names.split())
