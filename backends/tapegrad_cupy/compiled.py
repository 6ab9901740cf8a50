"""What the CUDA kernels written here share: C types, a prelude, compilation at the first call."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np

from tapegrad_cupy.replay import Watched, refuse

Array = Any

THREADS = 256
FULL = 1056
"""Blocks of 256 threads that fill an H200: eight on each of its 132 multiprocessors."""

MOST_BLOCKS = 2**31 - 1
"""The longest grid that CUDA launches."""

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

FLOATS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""The floating dtypes that kernels are written for, with their bytes."""

PRELUDE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef long long i64;

// Half precision is computed with in single; truth values are counted.
template <class T> struct Wider { typedef T type; };
template <> struct Wider<__half> { typedef float type; };
template <> struct Wider<__nv_bfloat16> { typedef float type; };
template <> struct Wider<bool> { typedef int type; };

template <class T> __device__ __forceinline__ typename Wider<T>::type widen(T x) { return x; }
template <> __device__ __forceinline__ float widen<__half>(__half x) { return __half2float(x); }
template <> __device__ __forceinline__ float widen<__nv_bfloat16>(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

template <class T> __device__ __forceinline__ T narrow(typename Wider<T>::type x) { return (T)x; }
template <> __device__ __forceinline__ __half narrow<__half>(float x) {
    return __float2half_rn(x);
}
template <> __device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}

// Read and written by accesses of up to 16 bytes.
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec { T v[N]; };
"""


_OPTIONS = ("-std=c++17",)


class Source(NamedTuple):
    """A whole text as the compiler gets it, and what people call it: the kernel's name first."""

    label: str
    text: str
    options: tuple[str, ...] = _OPTIONS


def compiled(source: str, name: str, **macros: str | int) -> Any:
    """Return the kernel `name` of a source that comes after the prelude and the macros.

    The caller keeps it; CuPy compiles it at its first launch on a device.
    """
    module = cupy.RawModule(code=complete(source, **macros), options=_OPTIONS)
    return Watched(module.get_function(name))


def complete(source: str, **macros: str | int) -> str:
    """Return the whole text that `compiled` compiles."""
    lines = "".join(f"#define {macro} {value}\n" for macro, value in macros.items())
    return PRELUDE + lines + source


def wide_name(dtype: str) -> str:
    """Return the name of the dtype that a floating dtype, given by its name, is computed in."""
    return "float32" if FLOATS[dtype] == 2 else dtype


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that a floating dtype is computed in."""
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def contiguous(x: Array) -> Array:
    """Return `x`, or a copy of it if its elements do not lie one after the other."""
    if x.flags.c_contiguous:
        return x
    refuse()
    return cupy.ascontiguousarray(x)


def is_aligned(*arrays: Array) -> bool:
    """Whether all arrays start where an access of 16 bytes may."""
    pointers = 0
    for array in arrays:
        pointers |= array.data.ptr
    return not pointers & 15


def blocks_for(items: int) -> int:
    """Return how many blocks give each of `items` a thread, at most what a grid can have."""
    return min(MOST_BLOCKS, (items + THREADS - 1) // THREADS)
