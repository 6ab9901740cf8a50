"""Who is right where libraries disagree: NumPy and SciPy about values, differences about slopes.

A gradient is judged by the slopes that it predicts along random directions. They are compared with
central differences of the function's values, which no rule of either library takes part in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.testing.sample import Sample

Array = np.ndarray
STEP = 1e-4
PRECISION = 1e-5
DIRECTIONS = 6


def values_are_right(sample: Sample, arrays: Sequence[Array], values: Sequence[Array]) -> bool:
    """Return whether results equal those of the sample's reference."""
    if sample.reference is None:
        return False
    try:
        found = sample.reference(*arrays)
    except Exception:  # a reference that is written for real numbers
        return False
    wanted = found if isinstance(found, list | tuple) else [found]
    return len(wanted) == len(values) and all(
        np.shape(w) == v.shape and np.allclose(v, w, rtol=1e-6, atol=1e-6, equal_nan=True)
        for v, w in zip(values, wanted, strict=True)
    )


def gradients_are_right(
    weighted: Callable[[Sequence[Array]], float],
    arrays: Sequence[Array],
    gradients: Sequence[Array | None],
) -> bool:
    """Return whether gradients predict the slopes of a number that depends on arrays."""
    rng = np.random.default_rng(5)
    return all(_predicts_a_slope(rng, weighted, arrays, gradients) for _ in range(DIRECTIONS))


def _predicts_a_slope(
    rng: np.random.Generator,
    weighted: Callable[[Sequence[Array]], float],
    arrays: Sequence[Array],
    gradients: Sequence[Array | None],
) -> bool:
    directions = [_direction(rng, array) for array in arrays]

    def at(h: float) -> float:
        moved = zip(arrays, directions, strict=True)
        return weighted([x if d is None else np.asarray(x + h * d) for x, d in moved])

    slope = (8 * (at(STEP) - at(-STEP)) - (at(2 * STEP) - at(-2 * STEP))) / (12 * STEP)
    predicted = sum(
        inner(gradient, d)
        for gradient, d in zip(gradients, directions, strict=True)
        if gradient is not None and d is not None
    )
    return bool(np.isclose(predicted, slope, rtol=PRECISION, atol=PRECISION))


def _direction(rng: np.random.Generator, array: Array) -> Array | None:
    if array.dtype.kind not in "fc":
        return None
    real = rng.normal(size=array.shape)
    return np.asarray(real + 1j * rng.normal(size=array.shape) if array.dtype.kind == "c" else real)


def inner(a: Any, b: Any) -> float:
    """Return the real inner product, Re(sum(conj(a) b))."""
    return float(np.real(np.sum(np.conj(a) * b)))
