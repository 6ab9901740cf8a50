"""`x.flat` and `x.view()` do what they do for NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp

SHAPES = [(2, 3), (6,), (1, 3, 2), ()]
INDICES: list[Any] = [
    *(0, -1, slice(None), slice(1, 4), slice(None, None, -2), ..., (), [0, 2], [2, 2]),
    *(np.array([1, 0]), np.array([True, False, True, False, True, False]), (slice(1, 3),)),
]
VALUES: list[Any] = [7.0, [7.0], [7.0, 8.0], [[1.0, 2.0], [3.0, 4.0]]]
VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "part": lambda x: x[1:],
    "backwards": lambda x: x[::-1],
}


def outcome(call: Callable[[Any], Any], x: Any) -> Any:
    """Return the result of a call and the array after it, or the kind of its error."""
    try:
        found = call(x)
    except (IndexError, ValueError) as error:
        return "IndexError" if isinstance(error, IndexError) else "ValueError"
    return np.asarray(found).tolist(), np.asarray(x).tolist()


def both(call: Callable[[Any], Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    array = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    return outcome(call, tnp.array(array)), outcome(call, array.copy())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_an_index_reads_the_elements_that_numpy_reads(index: Any, shape: tuple[int, ...]) -> None:
    found, expected = both(lambda x: x.flat[index], shape)

    assert found == expected


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_an_assignment_reaches_the_array_and_its_base(index: Any, value: Any, view: str) -> None:
    def assign(x: Any) -> Any:
        VIEWS[view](x).flat[index] = value
        return x

    found, expected = both(assign, (3, 2))

    assert found == expected


@pytest.mark.parametrize("shape", [*SHAPES, (0, 3)])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_all_elements_are_assigned(shape: tuple[int, ...], value: Any) -> None:
    def assign(x: Any) -> Any:
        x.flat = value
        return x

    found, expected = both(assign, shape)

    assert found == expected


@pytest.mark.parametrize("shape", [*SHAPES, (0, 3)])
def test_iteration_and_its_state(shape: tuple[int, ...]) -> None:
    def walk(x: Any) -> Any:
        it = x.T.flat
        first = [it.index, len(it)]
        seen = [float(element) for element in it]
        return [*first, *seen, it.index]

    found, expected = both(walk, shape)

    assert found == expected


def test_coordinates_comparisons_and_conversions() -> None:
    array = np.arange(6.0).reshape(2, 3)
    x = tnp.array(array)
    mine, other = x.T.flat, array.T.flat

    for _ in range(4):
        next(mine), next(other)
    assert mine.coords == other.coords
    assert mine.base.tolist() == other.base.T.tolist() or mine.base.tolist() == array.T.tolist()
    assert (x.flat == 2.0).tolist() == (array.flat == 2.0).tolist()
    assert (x.flat < array.ravel()[::-1]).tolist() == (array.flat < array.ravel()[::-1]).tolist()
    assert np.asarray(x.T.flat).tolist() == np.asarray(array.T.flat).tolist()
    assert x.T.flat.copy().tolist() == array.T.flat.copy().tolist()
    assert float(tnp.sum(x.flat)) == 15.0


@pytest.mark.parametrize("index", [6, -7, [0, 6], (0, 1), np.array([True, False])])
def test_an_index_beyond_the_elements_is_refused(index: Any) -> None:
    x = tnp.arange(6.0).reshape(2, 3)

    with pytest.raises(IndexError):
        x.flat[index]
    with pytest.raises(IndexError, match=r"x\.flat has"):
        x.flat[index] = 1.0


def test_gradients_flow_through_elements_and_assignments() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tnp.zeros((2, 2), "float32")
        y.T.flat[1] = x.flat[2] * 5.0
        loss = tnp.sum(y * x) + sum(element * element for element in x.flat)

    # y[1, 0] is 5 x[1, 0].
    assert tape.gradient(loss, x).tolist() == [[2.0, 4.0], [6.0 + 30.0, 8.0]]


def test_a_variable_is_written_through_flat() -> None:
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    v.flat[-1] = 9.0

    assert v.numpy().tolist() == [[1.0, 2.0], [3.0, 9.0]]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_view_shows_and_takes_writes(shape: tuple[int, ...]) -> None:
    def write(x: Any) -> Any:
        y = x.view()
        y[...] = 5.0
        return [x.view(x.dtype).sum(), y.sum()]

    found, expected = both(write, shape)

    assert found == expected
    x = tnp.ones(shape)
    assert x.view() is not x
    assert np.shares_memory(x, x.view())


def test_other_bits_and_classes_are_refused_in_a_sentence() -> None:
    x = tnp.ones(3)

    with pytest.raises(tf.errors.DTypeError, match=r"cannot show .* float64.* as .*int64"):
        x.view("int64")
    with pytest.raises(tf.errors.DTypeError, match="astype"):
        x.view(np.float32)
    for call in (lambda: x.view(np.ndarray), lambda: x.view(type=np.ndarray)):
        with pytest.raises(TypeError, match="another class"):
            call()


@pytest.mark.parametrize("function", [tf.signal.fftfreq, tf.signal.rfftfreq])
def test_frequencies_have_the_dtype_that_is_asked_for(function: Any) -> None:
    exact = getattr(np.fft, function.__name__)(7, 0.3)

    assert function(7, 0.3).dtype == tf.float32
    for dtype in ("float32", "float64", "float16"):
        found = function(7, 0.3, dtype=dtype)
        assert found.dtype == dtype
        assert found.numpy().tolist() == exact.astype(dtype).tolist()
    with pytest.raises(tf.errors.DTypeError, match=f"{function.__name__} returns floating-point"):
        function(7, dtype="int32")
