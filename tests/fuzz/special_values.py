"""Special values: each sample function gives the same on NaN and infinities, compiled.

    python -m tests.fuzz.special_values --seconds 600 --seed 1

The arguments of a sample get NaN, infinities, both zeros and denormal numbers in random places.
Eager code and a compiled function have to agree on which elements are NaN or infinite, and on the
numbers.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from functools import cache
from typing import Any

import numpy as np

os.environ.setdefault("TAPEGRAD_WAIT", "1")

import tapegrad as tf
from tapegrad.core.values import nest
from tapegrad.errors import TapegradError
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples, matrix_functions
from tests.fuzz.command import FaultError, main
from tests.fuzz.comparison import host
from tests.long_formulas import NAMES as LONG_FORMULAS

FINITE = ("lu-", "moments", "reduce_std", "reduce_variance", "std", "triangular_solve", "var")
"""Samples that get no infinite numbers, and neither do convolutions.

Such a number meets zeros in some forms only: those of the padding of a convolution, those that are
not stored in a triangular factor, and the gradient of the mean inside a variance.
"""
BANDED = "banded_triangular_solve"
"""Left out: eager code solves with the whole matrix, whose zeros times NaN are NaN."""
MATRIX_FUNCTIONS = frozenset(sample.name for sample in matrix_functions.SAMPLES)
"""Functions that amplify rounding errors of nearly singular matrices."""


@cache
def samples() -> list[Sample]:
    """Return the samples that can be recorded, without long formulas."""
    found = [s for s in all_samples() if s.records and s.name not in LONG_FORMULAS]
    return [s for s in found if not s.name.startswith(BANDED)]


def special(
    array: np.ndarray, rng: np.random.Generator, dtype: str, is_finite: bool = False
) -> np.ndarray:
    """Return the array with special values in about a third of its places.

    The largest numbers are not among them: sums of such numbers depend on the order.
    """
    if array.dtype.kind == "c":
        return _special_complex(array, rng, dtype)
    if array.dtype.kind in "biu" or array.size == 0:
        return array  # indices and sizes, mostly; extremes would be out of range
    kind = np.finfo(dtype)
    values = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, kind.smallest_subnormal, -kind.tiny,
         kind.eps, 1.0, -1.0, 88.8, -750.0]
    )  # fmt: skip
    values = values[np.isfinite(values)] if is_finite else values
    mask = rng.random(array.shape) < 0.35
    made = np.where(mask, rng.choice(values, size=array.shape), array)
    return made.astype(dtype)


def _special_complex(array: np.ndarray, rng: np.random.Generator, dtype: str) -> np.ndarray:
    """Return complex numbers on the axes: products of infinite ones differ between compilers."""
    parts = [
        np.where(rng.random(array.shape) < 0.35, rng.choice([0.0, -0.0, 1.0, -1.0], array.shape), x)
        for x in (array.real, array.imag)
    ]
    made = np.empty(array.shape, "complex64" if dtype == "float32" else "complex128")
    made.real, made.imag = parts
    return made


def values_and_gradients(sample: Sample, has_gradients: bool) -> Any:
    """Return a function with the results of a sample and their gradients."""

    def run(*tensors: Any) -> Any:
        sources = [x for x in tensors if x.dtype.is_differentiable]
        if not has_gradients or not sample.differentiable or not sources:
            return sample.function(*tensors)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            result = sample.function(*tensors)
        targets = [r for r in nest.flatten(result) if r.dtype.is_differentiable]
        return result, tape.gradient(targets, sources) if targets else None

    return run


def same(found: np.ndarray, wanted: np.ndarray, amplified: float = 1.0) -> str | None:
    """Compare two arrays by the classes of their elements and by their numbers."""
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind == "c":
        return same(found.real, wanted.real, amplified) or same(found.imag, wanted.imag, amplified)
    if wanted.dtype.kind != "f":
        return None if np.array_equal(found, wanted) else f"{found} and {wanted}"
    precision = amplified * (1e-5 if wanted.dtype == np.float32 else 1e-12)
    with np.errstate(all="ignore"):
        finite = np.isfinite(wanted)
        scale = np.maximum(np.abs(wanted), 1.0)
        is_near = np.abs(found - wanted) <= precision * scale
    is_same = np.where(finite, is_near, (found == wanted) | (np.isnan(found) & np.isnan(wanted)))
    if is_same.all():
        return None
    place = np.argwhere(np.atleast_1d(~is_same))[0]
    one, other = (np.atleast_1d(x)[tuple(place)] for x in (found, wanted))
    return f"{one!r} instead of {other!r} at {place.tolist()}"


def check(seed: int) -> Counter[str]:
    """Compare one sample on one draw of special values."""
    rng = np.random.default_rng(seed)
    sample = samples()[seed % len(samples())]
    dtype = ("float32", "float64")[int(rng.integers(2))]
    is_finite = "conv" in sample.name or sample.name.startswith(FINITE)
    arrays = [special(array, rng, dtype, is_finite) for array in sample.make(seed)]
    if sample.name.startswith("searchsorted"):
        arrays[0].sort()  # what is found in numbers without order depends on the search
    eager = values_and_gradients(sample, bool(rng.integers(2)))
    recorded = tf.function(eager)
    amplified = 20.0 if sample.name in MATRIX_FUNCTIONS else 1.0
    results: list[Any] = []
    for function in (eager, recorded):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results.append(nest.flatten(function(*[tf.constant(array) for array in arrays])))
        except (TapegradError, np.linalg.LinAlgError) as error:
            results.append(type(error).__name__)
    if isinstance(results[0], str) or isinstance(results[1], str):
        if type(results[0]) is type(results[1]):
            return Counter(calls=1, refused=1)
        raise FaultError(f"{sample.name} {dtype}: only one form is refused: {results!r:.200}")
    for one, other in zip(results[1], results[0], strict=True):
        text = None if other is None else same(host(one), host(other), amplified)
        if text:
            raise FaultError(f"{sample.name} {dtype}: {text}; arguments {arrays!r:.600}")
    return Counter(calls=1)


if __name__ == "__main__":
    sys.exit(main(check, __doc__.partition("\n")[0]))
