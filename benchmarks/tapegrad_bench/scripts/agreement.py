"""Whether a peer's results agree with tapegrad's, if possible by results in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapegrad_bench.scripts.captured import Part, elements, names_of

TOLERANCE = {8: 1e-7, 4: 2e-3, 2: 5e-2}
"""How far results may differ, by the bytes of the shortest floating-point number of a graph.

Differences are in units of the largest element of a result, or of a thousandth of the largest of
all results if that is more.
"""

MOST_ELEMENTS = 1 << 26
"""Graphs with more elements are not computed in double precision."""


@dataclass(frozen=True)
class Agreement:
    """What a comparison found."""

    holds: bool
    words: str


def judge(
    part: Part,
    found: Sequence[np.ndarray],
    wide: Sequence[np.ndarray] | None,
) -> Agreement:
    """Compare a peer's results with tapegrad's, and both with those in double precision."""
    tolerance = tolerance_of(part)
    if wide is not None:
        ours, _ = difference(part, part.expected, wide)
        theirs, _ = difference(part, found, wide)
        if max(ours, theirs) <= tolerance:
            return Agreement(True, f"{ours:.0e}, peer {theirs:.0e}, of float64")
    error, where = difference(part, found, part.expected)
    if error <= tolerance:
        return Agreement(True, f"{error:.0e}, tolerance {tolerance:.0e}")
    return Agreement(False, f"disagrees: {where} differs by {error:.0e} of its size")


def is_widened(part: Part) -> bool:
    """Whether a part has shorter numbers than double precision, and is small enough for it."""
    return tolerance_of(part) > TOLERANCE[8] and elements(part.graph) <= MOST_ELEMENTS


def tolerance_of(part: Part) -> float:
    """Return how far the results of a part may differ."""
    values = [value for call in part.graph.calls for value in call.results]
    sizes = [v.dtype.itemsize // (2 if v.dtype.kind == "c" else 1) for v in values if _is_real(v)]
    return TOLERANCE[min(sizes, default=8)]


def _is_real(value: object) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and (dtype.kind in "fc" or dtype.name == "bfloat16")


def difference(
    part: Part, found: Sequence[np.ndarray], expected: Sequence[np.ndarray]
) -> tuple[float, str]:
    """Return the largest difference between two lists of results, and which result has it."""
    names = names_of(part)
    if not len(found) == len(expected) == len(names):
        return float("inf"), f"{len(found)} results instead of {len(expected)}; one of them"
    exact = [_numbers(array) for array in expected]
    floor = 1e-3 * max((_largest(array) for array in exact), default=0.0)
    worst, where = 0.0, ""
    for name, one, other in zip(names, found, exact, strict=True):
        if one.shape != other.shape:
            return float("inf"), f"{name} with shape {one.shape} instead of {other.shape}"
        distance = _distance(_numbers(one), other)
        error = distance / (max(_largest(other), floor) or 1.0)
        if not error <= worst:
            worst, where = (error if error == error else float("inf")), name
    return worst, where


def _numbers(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _largest(array: np.ndarray) -> float:
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference; infinities and NaNs must be in the same places."""
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        return float(np.max(np.abs(np.where(same, 0, one - other)), initial=0.0))
