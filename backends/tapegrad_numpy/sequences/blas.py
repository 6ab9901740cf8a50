"""The functions of the BLAS library that NumPy has loaded, for calls from C.

NumPy's module of array functions links to BLAS, so a search in it finds the library's functions.
Their names depend on how NumPy was built. Each function is compared with NumPy once before it is
used; where none is found, products run through NumPy.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any, NamedTuple

import numpy as np

_NAMES = (
    ("scipy_cblas_{}64_", 8),
    ("cblas_{}64_", 8),
    ("scipy_cblas_{}", 4),
    ("cblas_{}", 4),
)
"""Patterns of names, and the bytes of the integers that such functions take."""

_ROW_MAJOR, _AS_IS = 101, 111


class Blas(NamedTuple):
    """Addresses of functions by the bytes of an element: products with matrices and vectors."""

    integer: int
    """The bytes of an integer."""
    gemm: dict[int, int]
    gemv: dict[int, int]
    threads: tuple[int, int] | None
    """Functions that return and set the number of threads, where they are known."""


@functools.cache
def blas() -> Blas | None:
    """Return the functions, or None if they are not found or do not compute what NumPy does."""
    try:
        module = importlib.import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(str(module.__file__))
    except (ImportError, OSError):
        return None
    for pattern, integer in _NAMES:
        found = {}
        for name in ("sgemm", "dgemm", "sgemv", "dgemv"):
            function = getattr(library, pattern.format(name), None)
            if function is not None:
                found[name] = function
        if len(found) == 4:
            return _checked(found, integer, _threads(library))
    return None


def _threads(library: Any) -> tuple[int, int] | None:
    """Return the addresses of OpenBLAS' functions for its number of threads."""
    for pattern in ("scipy_openblas_{}64_", "openblas_{}64_", "scipy_openblas_{}", "openblas_{}"):
        found = [
            getattr(library, pattern.format(name), None)
            for name in ("get_num_threads", "set_num_threads")
        ]
        if None not in found:
            get, change = [ctypes.cast(one, ctypes.c_void_p).value or 0 for one in found if one]
            return get, change
    return None


def whole_text() -> str:
    """Return the C text that defines the type of the functions' integers."""
    library = blas()
    return f"#define WHOLE int{8 * library.integer if library is not None else 64}_t\n"


def _checked(found: dict[str, Any], integer: int, threads: tuple[int, int] | None) -> Blas | None:
    whole = ctypes.c_int64 if integer == 8 else ctypes.c_int32
    for letter, dtype in (("s", np.float32), ("d", np.float64)):
        if not _multiplies(found[f"{letter}gemm"], found[f"{letter}gemv"], dtype, whole):
            return None
    address = {name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in found.items()}
    return Blas(
        integer,
        {4: address["sgemm"], 8: address["dgemm"]},
        {4: address["sgemv"], 8: address["dgemv"]},
        threads,
    )


def _multiplies(gemm: Any, gemv: Any, dtype: Any, whole: Any) -> bool:
    """Whether both functions compute products of small whole numbers."""
    real = ctypes.c_float if dtype is np.float32 else ctypes.c_double
    a, b = np.arange(6, dtype=dtype).reshape(2, 3), np.arange(12, dtype=dtype).reshape(3, 4)
    c, y = np.zeros((2, 4), dtype), np.zeros(2, dtype)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (a, b, c, y)]
    gemm(
        _ROW_MAJOR, _AS_IS, _AS_IS, whole(2), whole(4), whole(3), real(1), pointers[0], whole(3),
        pointers[1], whole(4), real(0), pointers[2], whole(4),
    )  # fmt: skip
    gemv(
        _ROW_MAJOR, _AS_IS, whole(2), whole(3), real(1), pointers[0], whole(3), pointers[1],
        whole(1), real(0), pointers[3], whole(1),
    )  # fmt: skip
    return bool(np.array_equal(c, a @ b) and np.array_equal(y, a @ b.reshape(-1)[:3]))
