"""What the arguments of a sample are like: shapes, ties, extreme values and dtypes.

Layouts in memory are not among them: the samples are given contiguous, and the variants have the
other layouts.
"""

from __future__ import annotations

import numpy as np

from tapegrad.testing.sample import Sample

CATEGORIES = (
    *("broadcasting", "0-d", "no elements", "ties", "extreme values"),
    *("floating point", "complex", "integers", "booleans"),
)
"""The rows of the table that a sample as it is may count for."""

_KINDS = {"f": "floating point", "c": "complex", "i": "integers", "u": "integers", "b": "booleans"}
_LARGE = 300.0
"""Beyond this, exp overflows in single precision and comes near to it in double precision."""


def categories_of(sample: Sample) -> set[str]:
    """Return what the arguments of a sample are like."""
    arrays = [np.asarray(x) for x in sample.make()]
    found = {_KINDS[x.dtype.kind] for x in arrays if x.dtype.kind in _KINDS}
    numbers = [x for x in arrays if x.dtype.kind in "fc"]
    if len({x.shape for x in numbers}) > 1:
        found.add("broadcasting")
    if any(x.ndim == 0 for x in arrays):
        found.add("0-d")
    if any(x.size == 0 for x in arrays):
        found.add("no elements")
    if any(len(np.unique(x)) < x.size for x in numbers):
        found.add("ties")
    if any(_is_extreme(x) for x in numbers):
        found.add("extreme values")
    return found


def _is_extreme(x: np.ndarray) -> bool:
    size = np.abs(x[np.isfinite(x)])
    small = size[(size > 0) & (size < 1 / _LARGE**2)]
    return bool(not np.isfinite(x).all() or (size > _LARGE).any() or small.size)
