"""Functions at special values on CUDA, against NumPy: NaN, infinities and signs of zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tests.program.test_loops_equal_eager import FUNCTIONS, special_values

MORE = {**FUNCTIONS, "exp2": (tnp.exp2, 1), "remainder": (tnp.remainder, 2)}


@pytest.fixture(autouse=True)
def on_the_gpu() -> Iterator[None]:
    with tf.device("cuda:0"):
        yield


def values_of(dtype: str) -> Any:
    """Without subnormal numbers in single precision, which CuPy flushes to 0."""
    found = special_values(dtype)
    sizes = np.abs(found)
    return found[~((sizes > 0) & (sizes < np.finfo(dtype).tiny))] if dtype == "float32" else found


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MORE)
def test_special_values_are_those_of_numpy(name: str, dtype: str, compiled: bool) -> None:
    function, count = MORE[name]
    grids = np.meshgrid(*[values_of(dtype)] * count, indexing="ij")
    with np.errstate(all="ignore"), tf.device("cpu"):
        expected = function(*[tf.constant(grid.ravel()) for grid in grids])
    called = tf.function(function) if compiled else function

    found = called(*[tf.constant(grid.ravel()) for grid in grids])

    tiny = float(np.finfo(dtype).tiny)
    for one, other in zip(listed(found), listed(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=16 * np.finfo(dtype).eps, atol=tiny)
        known = (other == other) & ((np.abs(other) >= tiny) | (other == 0)) & (one != 0)
        known |= (other == 0) & (one == 0)
        np.testing.assert_array_equal(np.signbit(one[known]), np.signbit(other[known]))


def listed(result: Any) -> list[Any]:
    return [x.numpy() for x in (result if isinstance(result, tuple) else (result,))]
