"""Loops read rolled, sliced, flipped and padded values where they are, without arrays for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.core.trace.loop import INSIDE, WRAPS, ZEROS, Along
from tapegrad.program.graph.windows import WINDOWS, window_of
from tests.seeds import SEED

rng = np.random.default_rng(11)


def array(*shape: int, dtype: str = "float64") -> Any:
    return tf.constant(rng.standard_normal(shape).astype(dtype))


def steps_of(program: Any) -> list[str]:
    """Return the names of the steps that are not loops."""
    return [step.primitive.name for step in program.steps if hasattr(step, "primitive")]


def check(function: Any, *args: Any, rtol: float = 1e-12) -> Any:
    """Compare the value and the gradients of a program with eager code."""

    def with_gradients(*args: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(args)
            value = function(*args)
            loss = tf.reduce_sum(value * tf.cos(value))
        return value, *tape.gradient(loss, args, unconnected_gradients="zero")

    expected = with_gradients(*args)
    compiled = tf.function(with_gradients)
    for _ in range(2):
        for one, other in zip(compiled(*args), expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=rtol, atol=10 * rtol)
    return compiled.program(*args)


def laplacian(u: Any) -> Any:
    around = tnp.roll(u, 1, 0) + tnp.roll(u, -1, 0) + tnp.roll(u, 1, 1) + tnp.roll(u, -1, 1)
    return u + 0.2 * (around - 4 * u)


@pytest.mark.parametrize("shape", [(5, 7), (16, 16), (40, 300), (3, 2)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_stencil_of_rolls_is_one_loop_per_step_and_direction(
    shape: tuple[int, int], dtype: str
) -> None:
    def function(u: Any) -> Any:
        for _ in range(4):
            u = laplacian(u)
        return u

    program = check(
        function, array(*shape, dtype=dtype), rtol=1e-12 if dtype == "float64" else 1e-4
    )
    assert steps_of(program) == []
    assert len(program.steps) == 8


@pytest.mark.parametrize("shape", [(5, 7), (16, 16), (40, 300)])
def test_a_stencil_of_slices_with_a_border_of_zeros(shape: tuple[int, int]) -> None:
    def function(u: Any) -> Any:
        for _ in range(3):
            inner = u[1:-1, 1:-1]
            around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            u = tf.pad(inner + 0.2 * (around - 4.0 * inner), [[1, 1], [1, 1]])
        return u

    program = check(function, array(*shape))
    if array(1).device == "cpu":  # a GPU has views of slices
        assert len(program.steps) == 7  # three forward, four backward
        # The last border is added alone, because the gradient reads what is inside of it.
        assert steps_of(program) == ["unslice"]


FUNCTIONS = {
    "flip": lambda x: tnp.flip(x, 0) * x + tnp.flip(x, (0, 1)),
    "roll of two axes": lambda x: tnp.roll(x, (2, -3), (0, 1)) * x,
    "roll of a roll": lambda x: tnp.roll(tnp.roll(x, 2, 1), -5, 1) * x,
    "roll of a slice": lambda x: tnp.roll(x[1:, 2:], 1, 1) * x[1:, 2:],
    "slice of a roll": lambda x: tnp.roll(x, 3, 1)[:, 2:-1] * x[:, 2:-1],
    "flip of a roll": lambda x: tnp.flip(tnp.roll(x, 2, 1), 1) * x,
    "roll of a flip": lambda x: tnp.roll(tnp.flip(x, 1), 2, 1) * x,
    "steps": lambda x: x[::2, 1::3] * x[1::2, ::3][: x[::2].shape[0], : x[:, 1::3].shape[1]],
    "backwards": lambda x: x[::-1, ::-2] * x[:, 1::2],
    "a row": lambda x: x[2] * x + x[:, 3:4],
    "a new axis": lambda x: x[:, None, 2:] * x[None, :, 2:],
    "padded rows": lambda x: tf.pad(x, [[1, 2], [0, 0]])[1:-2] * x,
    "padded columns": lambda x: tf.pad(x[:, 1:], [[0, 0], [2, 0]])[:, 1:] * x,
    "shifted by padding": lambda x: tf.pad(x, [[0, 0], [3, 0]])[:, :-3] * x,
    "broadcast": lambda x: tnp.roll(x[0], 1) * x + tnp.roll(x, 1, 0)[:, :1],
    "unstack": lambda x: tf.unstack(x, axis=0)[1] * tf.unstack(x, axis=0)[2] + x,
    "split": lambda x: tf.split(x, 2, axis=1)[0] * tf.split(x, 2, axis=1)[1],
    "sums": lambda x: (
        tf.reduce_sum(tnp.roll(x, 1, 1) * x, axis=1) + tf.reduce_sum(x[:, 1:] * 2.0, 1)
    ),
    "sums of columns": lambda x: tf.reduce_sum(tnp.roll(x, 1, 0) * x[::-1], axis=0),
    "maximum": lambda x: tf.reduce_max(tnp.roll(x, 1, 1) * tnp.flip(x, 1), axis=1),
    "differences": lambda x: (x[1:] - x[:-1])[:, 1:] * (x[:, 1:] - x[:, :-1])[1:],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(6, 8), (4, 130)])
def test_windows_of_all_kinds(name: str, shape: tuple[int, int]) -> None:
    check(FUNCTIONS[name], array(*shape), rtol=1e-10)


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool"])
def test_borders_of_other_dtypes(mode: str, dtype: str) -> None:
    """A border that is read backwards, from elements that are not read as they are stored."""
    x = tf.cast(tf.constant([8.0, 0.0, 3.0, 4.0]), dtype)

    def function(x: Any) -> Any:
        return tnp.where(tnp.pad(x, [[3, 2]], mode=mode) != 0, 1.0, -1.0)

    np.testing.assert_array_equal(tf.function(function)(x), function(x))


def test_long_rows_are_cut_into_tasks() -> None:
    """A row of zeros is as long as the part of a row that one task processes."""
    check(lambda x: tf.pad(x[:, 5:], [[0, 0], [0, 5]]) * tnp.roll(x, 70_000, 1), array(2, 100_000))


def test_an_array_is_not_overwritten_while_its_neighbours_are_read() -> None:
    def function(u: Any) -> Any:
        for _ in range(6):
            u = tf.sin(tnp.roll(u, 1, 0) + u)
        return u

    check(function, array(50, 4))


def test_a_value_is_stored_before_another_element_of_it_is_read() -> None:
    """It is read at the same element and elsewhere, by a call that could join its loop."""

    def function(x: Any) -> Any:
        y = tf.sin(x)
        return y * 2.0 + tnp.roll(y * x, 1, 0)

    program = check(function, array(20, 3))
    assert len([step for step in program.steps if not hasattr(step, "primitive")]) >= 2


def test_windows_say_where_they_read() -> None:
    def positions(function: Any) -> Any:
        x = array(6, 8)
        compiled = tf.function(function)
        y = compiled(x)
        graph = compiled.program(x).recorded
        makers = {value.number: call for call in graph.calls for value in call.results}
        value = graph.calls[-1].reads[0]
        found = window_of(value, tuple(y.shape), makers, WINDOWS)
        return None if found is None else found[1].window

    assert positions(lambda x: tf.sin(tnp.roll(x, 2, 1))) == (
        Along(0),
        Along(1, 0, 1, WRAPS, 6, 8),
    )
    assert positions(lambda x: tf.sin(x[1:, ::-1])) == (Along(0, 1), Along(1, 7, -1, INSIDE))
    assert positions(lambda x: tf.sin(tf.pad(x, [[2, 0], [0, 0]]))) == (
        Along(0, 0, 1, ZEROS, -2, 6),
        Along(1),
    )
    assert positions(lambda x: tf.sin(x)) is None
    assert positions(lambda x: tf.sin(x[2, 3])) == (Along(None, 2), Along(None, 3))


class Programs:
    """Random programs of windows, sums and products."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def value(self, x: Any) -> Any:
        pick = self.rng.integers
        for _ in range(int(pick(1, 4))):
            axis, size = int(pick(0, 2)), x.shape
            kind = pick(0, 6)
            if kind == 0:
                x = tnp.roll(x, int(pick(-9, 9)), axis)
            elif kind == 1:
                x = tnp.flip(x, axis)
            elif kind == 2 and size[axis] > 3:
                start = int(pick(0, 3))
                x = x[start:] if axis == 0 else x[:, start:]
            elif kind == 3:
                pads = [[0, 0], [0, 0]]
                pads[axis] = [int(pick(0, 3)), int(pick(0, 3))]
                x = tf.pad(x, pads)
            elif kind == 4:
                x = x[::-1] if axis == 0 else x[:, ::2]
            else:
                x = tf.sin(x)
        return x

    def __call__(self, x: Any) -> Any:
        total: Any = 0.0
        for _ in range(3):
            y, z = self.value(x), self.value(x)
            rows, columns = min(y.shape[0], z.shape[0]), min(y.shape[1], z.shape[1])
            total = total + tf.reduce_sum(y[:rows, :columns] * z[-rows:, -columns:], axis=1)[:3]
        return total


@pytest.mark.parametrize("case", range(30))
def test_random_windows(case: int) -> None:
    seed = SEED * 1000 + case
    x = array(9, 12)
    check(lambda x: Programs(seed)(x), x, rtol=1e-9)
