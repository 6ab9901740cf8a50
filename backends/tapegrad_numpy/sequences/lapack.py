"""The functions of the LAPACK library that NumPy has loaded, for calls from C.

NumPy's module of linear algebra links to LAPACK, so a search in it finds the library's functions.
They take all arguments by address. Each one is tried on a small matrix before it is used; where one
is not found, linear algebra runs through NumPy.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any, NamedTuple

import numpy as np

_PATTERNS = (("scipy_{}_64_", 8), ("{}_64_", 8), ("scipy_{}_", 4), ("{}_", 4))
"""Patterns of names, and the bytes of the integers that such functions take."""

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
NAMES = ("gesv", "getrf", "potrf", "trsm", "gemm")
"""Systems of equations, LU, Cholesky, and of BLAS triangular systems and products."""


class Lapack(NamedTuple):
    """Addresses of functions, by names such as "dgesv"."""

    integer: int
    """The bytes of an integer."""
    address: dict[str, int]


@functools.cache
def lapack() -> Lapack | None:
    """Return the functions, or None if they are not found or do not compute what NumPy does."""
    try:
        module = importlib.import_module("numpy.linalg._umath_linalg")
        library = ctypes.CDLL(str(module.__file__))
    except (ImportError, OSError):
        return None
    names = [letter + name for letter in LETTERS.values() for name in NAMES]
    for pattern, integer in _PATTERNS:
        found: dict[str, Any] = {
            name: getattr(library, pattern.format(name), None) for name in names
        }
        if None not in found.values():
            if not all(_computes(found, dtype, integer) for dtype in LETTERS):
                return None
            address = {n: ctypes.cast(f, ctypes.c_void_p).value or 0 for n, f in found.items()}
            return Lapack(integer, address)
    return None


def whole_text() -> str:
    """Return the C text that defines the type of the functions' integers."""
    library = lapack()
    return f"#define WHOLE int{8 * library.integer if library is not None else 64}_t\n"


def _computes(found: dict[str, Any], dtype: str, integer: int) -> bool:
    """Whether the functions of a dtype solve small systems."""
    letter = LETTERS[dtype]
    whole = np.int64 if integer == 8 else np.int32
    matrix = np.array([[1, 2], [4, 2]], dtype)
    two, one, info = (np.array(k, whole) for k in (2, 1, -1))
    factor, b, pivots = matrix.copy("F"), np.array([5, 8], dtype), np.zeros(2, whole)
    _call(found[f"{letter}gesv"], two, one, factor, two, pivots, b, two, info)
    solves = not info and np.allclose(b, [1, 2]) and pivots.tolist() == [2, 2]
    again, info_of_factor = matrix.copy("F"), np.array(-1, whole)
    _call(found[f"{letter}getrf"], two, two, again, two, pivots, info_of_factor)
    factors = not info_of_factor and np.array_equal(again, factor)
    root, info_of_root = np.array([[4, 2], [2, 5]], dtype, order="F"), np.array(-1, whole)
    _call(found[f"{letter}potrf"], b"L", two, root, two, info_of_root)
    takes_root = not info_of_root and np.allclose(np.tril(root), [[2, 0], [1, 2]])
    row, unit = np.array([4, 4], dtype), np.ones((), dtype)
    _call(
        found[f"{letter}trsm"], b"R", b"L", b"N", b"N", one, two, unit, root, two, row, one
    )  # fmt: skip
    square, zero = np.empty((2, 2), dtype, order="F"), np.zeros((), dtype)
    _call(
        found[f"{letter}gemm"], b"N", b"T", two, two, two, unit, matrix, two, matrix, two, zero,
        square, two,
    )  # fmt: skip
    multiplies = np.array_equal(square, matrix.T @ matrix)
    return bool(solves and factors and takes_root and multiplies and np.allclose(row, [1, 2]))


def _call(function: Any, *arguments: Any) -> None:
    """Call a function of Fortran; the lengths of its strings come last."""
    function.restype = None
    given: list[Any] = [
        ctypes.c_char_p(one) if isinstance(one, bytes) else ctypes.c_void_p(one.ctypes.data)
        for one in arguments
    ]
    lengths = [ctypes.c_size_t(1) for one in arguments if isinstance(one, bytes)]
    function(*given, *lengths)
