"""Python integers that a dtype cannot hold, and those beyond all integer dtypes, as in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad.numpy as tnp


def fill(xp, x):
    x.fill(300)


def put(xp, x):
    xp.put(x, [0], 300)


def put_list(xp, x):
    xp.put(x, [0, 1], [1, -200])


def set_list(xp, x):
    x[:2] = [1, 300]


def set_nested_list(xp, x):
    x.reshape(2, 2)[:] = [[1, 2], [-129, 3]]


def set_by_mask(xp, x):
    x[x > 1] = 128


def copy_to(xp, x):
    xp.copyto(x, 300)


def join(xp, x):
    xp.r_[x, 300]


def join_columns(xp, x):
    xp.c_[x[:1], -129]


@pytest.mark.parametrize(
    "change",
    [fill, put, put_list, set_list, set_nested_list, set_by_mask, copy_to, join, join_columns],
)
def test_numbers_out_of_range_raise(change):
    for xp in (np, tnp):
        x = xp.arange(4, dtype=np.int8)
        with pytest.raises(OverflowError):
            change(xp, x)
    np.testing.assert_array_equal(np.asarray(x), [0, 1, 2, 3])  # NumPy may have written a part


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", "float32"])
def test_numbers_in_range_are_written(dtype):
    found = []
    for xp in (np, tnp):
        x = xp.zeros(4, dtype)
        xp.copyto(x, 7)
        x[1:] = [1, 2, 3]
        xp.put(x, [3], 9)
        found.append(np.asarray(xp.r_[x, 5]))
    assert found[0].dtype == found[1].dtype
    np.testing.assert_array_equal(*found)


def test_integers_beyond_all_integer_dtypes():
    for xp in (np, tnp):
        found = np.asarray(xp.full(2, -(2**64) + 1, dtype=float))
        np.testing.assert_array_equal(found, [-(2.0**64)] * 2)
        found = np.asarray(xp.array([[2**70], [1]], dtype="float32"))
        np.testing.assert_array_equal(found, np.array([[2.0**70], [1]], np.float32))
        with pytest.raises(OverflowError):
            xp.array([2**70, 1], dtype="int64")
    with pytest.raises(TypeError):
        tnp.array([None, 2**70], dtype=float)
