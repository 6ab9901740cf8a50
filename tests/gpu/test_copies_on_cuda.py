"""Copies between layouts, reshapes and joins on the GPU against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import ml_dtypes
import numpy as np
import pytest

from tapegrad_cupy.kernels.copying import copies, joins

DTYPES = ["bool", "int8", "float16", ml_dtypes.bfloat16, "float32", "int64", "complex128"]
VIEWS: list[Callable[[Any], Any]] = [
    lambda a: a,
    lambda a: a.transpose(2, 0, 1),
    lambda a: a[:, ::-1],
    lambda a: a[1:, :, 3:],
    lambda a: a[:, :, ::2],
    lambda a: a[:, :1],
    lambda a: a[:0],
    lambda a: a[0, 0, 0],
]


def values(dtype: Any) -> Any:
    return cupy.asarray(np.arange(6 * 8 * 16) % 97).reshape(6, 8, 16).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_a_contiguous_copy_has_the_same_elements(dtype: Any, number: int) -> None:
    x = VIEWS[number](values(dtype))

    copy = copies.contiguous_copy(x)

    assert copy.flags.c_contiguous
    assert copy.get().tobytes() == np.ascontiguousarray(x.get()).tobytes()


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_a_copy_into_a_view_changes_nothing_else(number: int) -> None:
    target, expected = values("float32"), values("float32").get()
    view = VIEWS[number](target)
    new = cupy.arange(view.size, dtype="float32").reshape(view.shape) - 1000

    copies.copy_into(view, new) if view.size else None

    if view.ndim:
        VIEWS[number](expected)[...] = new.get()
    else:
        expected[0, 0, 0] = new.get()
    np.testing.assert_array_equal(target.get(), expected)


def test_a_reshape_is_a_view_where_it_can_be() -> None:
    x = values("float32")
    turned = x.transpose(1, 0, 2)

    assert copies.reshape(x, shape=(48, 16)).data.ptr == x.data.ptr
    assert copies.reshape(turned, shape=(8, 6, 4, 4)).data.ptr == x.data.ptr
    moved = copies.reshape(turned, shape=(48, 16))
    assert moved.data.ptr != x.data.ptr
    np.testing.assert_array_equal(moved.get(), turned.get().reshape(48, 16))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_joined_arrays_lie_one_after_the_other(axis: int, dtype: Any) -> None:
    x = values(dtype)
    parts = [x, x.take([2], axis=axis), x[..., ::-1], x[:0] if axis == 0 else x]
    sizes = tuple(part.shape[axis] for part in parts)

    joined = joins.concat(*parts, axis=axis, sizes=sizes)

    expected = np.concatenate([part.get() for part in parts], axis=axis)
    assert joined.get().tobytes() == expected.tobytes()


def test_arrays_of_different_dtypes_are_joined_in_the_wider_one() -> None:
    x, y = values("float32"), values("float64")

    joined = joins.concat(x, y, axis=0, sizes=(6, 6))

    assert joined.dtype == np.float64
    np.testing.assert_array_equal(joined.get(), np.concatenate([x.get(), y.get()]))


@pytest.mark.parametrize("axis", [0, 1, 3])
def test_stacked_arrays_get_an_axis_of_their_own(axis: int) -> None:
    x = values("float16")
    parts = [x, x[:, ::-1], x[::-1]]

    stacked = joins.stack(*parts, axis=axis)

    np.testing.assert_array_equal(stacked.get(), np.stack([p.get() for p in parts], axis=axis))


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("number", range(len(VIEWS) - 1))
def test_parts_along_an_axis_are_views(number: int, axis: int) -> None:
    x = VIEWS[number](values("float32"))

    parts = joins.unstack(x, axis=axis)

    assert len(parts) == x.shape[axis]
    for part, expected in zip(parts, np.moveaxis(x.get(), axis, 0), strict=True):
        np.testing.assert_array_equal(part.get(), expected)
        assert not part.size or cupy.may_share_memory(part, x)


def test_parts_of_nothing_are_empty() -> None:
    for x in (cupy.zeros(0).reshape(3, 0), cupy.zeros((3, 0)), cupy.zeros(0).reshape(3, 2, 0)):
        assert [part.shape for part in joins.unstack(x, axis=0)] == [x.shape[1:]] * 3


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_a_roll_moves_elements_as_numpy_does(dtype: Any, number: int) -> None:
    x = VIEWS[number](values(dtype))
    for shift in range(-9, 10, 3):
        axes = tuple(range(x.ndim))
        shifts = tuple(shift + k for k in axes)

        found = copies.roll(x, shift=shifts, axis=axes)

        expected = np.roll(x.get(), shifts, axes) if axes else x.get()
        assert found.get().tobytes() == np.ascontiguousarray(expected).tobytes()
        assert found.data.ptr != x.data.ptr or not x.size


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_stacked_arrays_lie_beside_each_other(axis: int, dtype: Any) -> None:
    x = values(dtype)
    parts = [x[:, 1:], x[:, :-1], x[:, 1:, ::1]]
    rank = x.ndim + 1

    stacked = joins.stack(*parts, axis=axis % rank)

    expected = np.stack([part.get() for part in parts], axis=axis)
    assert stacked.get().tobytes() == expected.tobytes()


@pytest.mark.parametrize("width", [1, 3, 4, 6, 8, 16, 24])
@pytest.mark.parametrize("count", [2, 15, 16, 17, 90])
def test_lines_of_any_width_are_joined(width: int, count: int) -> None:
    whole = cupy.arange(5 * width * count, dtype="int16").reshape(5, width * count)
    parts = [whole[:, k * width : (k + 1) * width] for k in range(count)]

    joined = joins.concat(*parts, axis=1, sizes=(width,) * count)

    np.testing.assert_array_equal(joined.get(), whole.get())
