"""The CUDA prelude: element types, conversions of half precision, and vectors.

`PRELUDE` suits kernels of every dtype. `prelude_for` leaves out the dtypes that a kernel does not
use, so that it compiles faster. Row kernels have types of their own: see rows_source.py.
"""

from __future__ import annotations

from collections.abc import Collection

C_TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float32": "float",
    "float64": "double",
}
"""The CUDA type that stores the elements of each dtype."""

FLOATS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""The floating dtypes that kernels are written for, with their sizes in bytes."""

UNITS = {
    16: "uint4",
    8: "unsigned long long",
    4: "unsigned int",
    2: "unsigned short",
    1: "unsigned char",
}
"""Types by their size in bytes, for kernels that only move elements."""

_HEADERS = {
    "float16": "#include <cuda_fp16.h>\n",
    "bfloat16": "#include <cuda_bf16.h>\n",
    "complex64": "#include <cupy/complex.cuh>\n",
    "complex128": "#include <cupy/complex.cuh>\n",
}

_COMMON = r"""
typedef long long i64;

// The type that elements are computed in: float for half precision, int for bool.
template <class T> struct Wider { typedef T type; };
template <> struct Wider<bool> { typedef int type; };

template <class T> __device__ __forceinline__ typename Wider<T>::type widen(T x) { return x; }
template <class T> __device__ __forceinline__ T narrow(typename Wider<T>::type x) { return (T)x; }

// N neighbouring elements, accessed by instructions of up to 16 bytes.
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec { T v[N]; };
"""

_CONVERSIONS = {
    "float16": r"""
template <> struct Wider<__half> { typedef float type; };
template <> __device__ __forceinline__ float widen<__half>(__half x) { return __half2float(x); }
template <> __device__ __forceinline__ __half narrow<__half>(float x) {
    return __float2half_rn(x);
}
""",
    "bfloat16": r"""
template <> struct Wider<__nv_bfloat16> { typedef float type; };
template <> __device__ __forceinline__ float widen<__nv_bfloat16>(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
template <> __device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}
""",
}


def prelude_for(dtypes: Collection[str]) -> str:
    """Return the prelude of a kernel that reads and writes arrays of these dtypes."""
    names = sorted(dtypes)
    headers = "".join(dict.fromkeys(_HEADERS.get(name, "") for name in names))
    return headers + _COMMON + "".join(_CONVERSIONS.get(name, "") for name in names)


PRELUDE = prelude_for(["bfloat16", "float16"])
