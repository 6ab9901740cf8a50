"""Compare lists of arrays and say where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

PRECISION = {"float64": 1e-8, "complex128": 1e-8, "float32": 2e-3, "complex64": 2e-3}


def host(value: Any) -> np.ndarray:
    """Return a copy of the array of a tensor."""
    return np.array(value.numpy() if hasattr(value, "numpy") else value)


def difference(found: Sequence[Any], wanted: Sequence[Any], is_exact: bool = False) -> str | None:
    """Return a sentence about the first arrays that differ, or None.

    Errors are measured against the largest number of an array: programs subtract large numbers.
    """
    if len(found) != len(wanted):
        return f"{len(found)} values instead of {len(wanted)}"
    for k, (one, other) in enumerate(zip(found, wanted)):
        a, b = host(one), host(other)
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"value {k} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        text = _bits(a, b) if is_exact or b.dtype.kind in "iub" else _numbers(a, b)
        if text:
            return f"value {k}, {b.dtype}{b.shape}: {text}"
    return None


def _bits(a: np.ndarray, b: np.ndarray) -> str | None:
    if a.dtype.kind in "iubO":
        is_same = a == b
    else:
        wide = [x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b)]
        is_same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    if np.all(is_same):
        return None
    places = np.argwhere(~np.atleast_1d(is_same))[0]
    one, other = (np.atleast_1d(x)[tuple(places)] for x in (a, b))
    return f"{np.sum(~is_same)} elements differ, first at {places.tolist()}: {one} and {other}"


def _numbers(a: np.ndarray, b: np.ndarray) -> str | None:
    precision = PRECISION.get(b.dtype.name, 0.1)
    a, b = (x.astype(np.complex128) for x in (a, b))
    if (np.isfinite(a) != np.isfinite(b)).any():
        return f"finite in {np.isfinite(a).sum()} places instead of {np.isfinite(b).sum()}"
    finite = np.isfinite(b)
    error = np.max(np.abs(a - b)[finite], initial=0.0)
    scale = max(1.0, float(np.max(np.abs(b)[finite], initial=0.0)))
    return f"error {error / scale:.2g} of {scale:.3g}" if error > precision * scale else None
