"""Maxima and minima of NumPy's backend, beside NumPy's own, and how long their inner loops are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

from tapegrad_numpy.kernels.extremes import extreme

SHAPES = [(2048, 4), (64, 3, 40), (4, 1027, 3), (7, 5, 11, 13, 2), (2, 33, 77), (1, 5000), (5000,)]


def draw(shape: tuple[int, ...], dtype: Any) -> Any:
    rng = np.random.default_rng(len(shape))
    x = rng.integers(0, 200, shape).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[5::97] = np.nan
        x.flat[3::89] = -np.inf
    return x


def all_axes(rank: int) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(range(rank), count) for count in range(rank + 1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_extremes_are_those_of_numpy_along_all_axes(shape: tuple[int, ...], dtype: str) -> None:
    x = draw(shape, dtype)
    for axis in all_axes(len(shape)):
        for ufunc in (np.maximum, np.minimum):
            for keepdims in (False, True):
                found = extreme(ufunc, x, axis, keepdims)

                wanted: Any = ufunc.reduce(x, axis, keepdims=keepdims)
                assert (type(found), found.dtype) == (type(wanted), wanted.dtype)
                np.testing.assert_array_equal(found, wanted)


def test_arrays_of_other_layouts_and_dtypes_are_left_to_numpy() -> None:
    x = draw((9, 600, 4), "float32")
    for other in (x.transpose(2, 1, 0), x[:, ::-1], x > 0, x.astype(np.complex64)):
        for axis in all_axes(3):
            found = extreme(np.maximum, other, axis, False)

            np.testing.assert_array_equal(found, np.maximum.reduce(other, axis))


def test_nothing_has_no_extreme() -> None:
    with pytest.raises(ValueError, match="zero-size"):
        extreme(np.maximum, np.zeros((5000, 0), np.float32), (1,), False)


class Counted:
    """Compares as `np.maximum` does and counts the elements per innermost run of a call."""

    def __init__(self) -> None:
        self.calls = 0
        self.rows_of_numpy = 0

    def __call__(self, a: Any, b: Any, **options: Any) -> Any:
        self.calls += 1
        return np.maximum(a, b, **options)

    def reduce(self, x: Any, *rest: Any) -> Any:
        self.rows_of_numpy += x.size // x.shape[-1]
        return np.maximum.reduce(x, *rest)


@pytest.mark.parametrize(
    ("shape", "axis", "calls", "rows"),
    [
        ((4096, 4), (1,), 3, 0),  # NumPy: 4,096 rows
        ((16, 1024, 3), (1,), 10, 0),  # NumPy: 16,384 steps of 3 elements
        ((4, 64, 64, 8, 8), (1, 2, 4), 7, 4 * 64 * 64),  # NumPy: 131,072 rows of 8 elements
    ],
)
def test_inner_loops_are_few(
    shape: tuple[int, ...], axis: tuple[int, ...], calls: int, rows: int
) -> None:
    x = draw(shape, "float32")
    counted: Any = Counted()

    found = extreme(counted, x, axis, False)

    np.testing.assert_array_equal(found, np.maximum.reduce(x, axis))
    assert counted.calls == calls
    assert counted.rows_of_numpy <= rows
