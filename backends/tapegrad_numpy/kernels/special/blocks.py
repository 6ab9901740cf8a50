"""Apply float64 functions to arrays of any shape and dtype, one cache-sized block at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

# A float64 block; ufunc results are Any to the type checker.
Array: TypeAlias = Any
Formula: TypeAlias = Callable[..., Array]

# Elements per block: a handful of float64 temporaries of this length stay in a 1 MiB cache.
_BLOCK = 16384

_FLOATS = ("bfloat16", "float16", "float32", "float64")


def elementwise(formula: Formula, single: Formula | None = None) -> Formula:
    """Turn a function of float64 blocks into one of broadcasting arrays of any supported dtype.

    The result has the widest floating dtype among the arguments, or float64 if all are integers.
    `single` is a float32 version of the function, used for float32 and narrower; without it they
    are computed in float64. The function must not write into its arguments.
    """

    @functools.wraps(formula)
    def run(*args: Any) -> Array:
        dtype = _result_dtype(formula.__name__, args)
        if single is None or dtype.itemsize == 8:
            function, work = formula, "float64"
        else:
            function, work = single, "float32"
        arrays = [np.asarray(arg) for arg in args]
        shape = arrays[0].shape if len(arrays) == 1 else np.broadcast(*arrays).shape
        flat = [np.broadcast_to(array, shape).reshape(-1) for array in arrays]
        out = np.empty(shape, dtype)
        flat_out = out.reshape(-1)
        with np.errstate(all="ignore"):
            for start in range(0, out.size, _BLOCK):
                piece = slice(start, start + _BLOCK)
                flat_out[piece] = function(*(x[piece].astype(work, copy=False) for x in flat))
        return out

    return run


def _result_dtype(name: str, args: tuple[Any, ...]) -> np.dtype[Any]:
    found = []
    for arg in args:
        if type(arg) in (bool, int, float):
            continue
        dtype = np.asarray(arg).dtype
        if dtype.name in _FLOATS:
            found.append(dtype)
        elif dtype.kind not in "biu":
            raise TypeError(
                f"{name} takes real arrays: {', '.join(_FLOATS)} or integers. Got {dtype.name}."
            )
    return np.result_type(*found) if found else np.dtype(np.float64)


def select(args: tuple[Array, ...], *pieces: tuple[Array, Formula], otherwise: Formula) -> Array:
    """Evaluate each element with the first piece whose mask is true, else with `otherwise`.

    A piece gets only its own elements. Comparisons with NaN are false, so NaN goes to `otherwise`.
    """
    y = np.empty(args[0].shape)
    rest = np.ones(args[0].shape, dtype=np.bool_)
    for mask, formula in pieces:
        # Index arrays are faster than boolean indexing for half-filled masks.
        index = np.flatnonzero(mask & rest)
        if index.size == y.size:
            return formula(*args)
        if index.size:
            y[index] = formula(*(arg[index] for arg in args))
            rest &= ~mask
    index = np.flatnonzero(rest)
    if index.size == y.size:
        return otherwise(*args)
    if index.size:
        y[index] = otherwise(*(arg[index] for arg in args))
    return y
