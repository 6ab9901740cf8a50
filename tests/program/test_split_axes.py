"""Loops that reach through reshapes, sums without constant factors, and parts that are selected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.emit.lowering import CompiledLoop
from tapegrad.program.passes.split_axes import common_splits
from tests.program.test_short_products import graphs_of

pytest.importorskip("cupy")
pytest.importorskip("tests.house.host_cuda")


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def loops_of(function: Any, *args: Any) -> list[Any]:
    return [one.made_of for one in function.program(*args).steps if isinstance(one, CompiledLoop)]


def compared(step: Any, *args: Any) -> Any:
    """Return the compiled function; its results are those of the function in eager mode."""
    compiled = tf.function(step, wait=True)
    for _ in range(2):
        found = compiled(*args)
    for one, other in zip(found, step(*args), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-10)
    return compiled


def gradients(function: Any) -> Any:
    def step(*args: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(args)
            total = tf.reduce_sum(tf.sin(function(*args)))
        return total, *tape.gradient(total, args)

    return step


def group_norm(x: Any, gain: Any, bias: Any) -> Any:
    n, h, w, c = x.shape
    parts = tf.reshape(x, (n, h, w, 3, c // 3))
    mean = tf.reduce_mean(parts, (1, 2, 4), keepdims=True)
    variance = tf.reduce_mean(tf.square(parts - mean), (1, 2, 4), keepdims=True)
    normal = tf.reshape((parts - mean) / tf.sqrt(variance + 1e-3), x.shape)
    return normal * gain + bias


def batch_norm(x: Any, gain: Any, bias: Any) -> Any:
    mean, variance = tf.nn.moments(x, (0, 1, 2))
    return tf.nn.relu((x - mean) / tf.sqrt(variance + 1e-3) * gain + bias) * x


def group_norm_of_joined_places(x: Any, gain: Any, bias: Any) -> Any:
    n, h, w, c = x.shape
    parts = tf.reshape(x, (n, h * w, 3, c // 3))
    mean = tf.reduce_mean(parts, (1, 3), keepdims=True)
    variance = tf.reduce_mean(tf.square(parts - mean), (1, 3), keepdims=True)
    return tf.reshape((parts - mean) / tf.sqrt(variance + 1e-3), x.shape) * gain + bias


def heads(x: Any, gain: Any, bias: Any) -> Any:
    n, h, w, c = x.shape
    rows = tf.reshape(tf.tanh(x * gain), (n, h * w * c))
    largest = tf.reduce_max(tf.reshape(rows + 1.0, (n, h, w, 2, c // 2)), -1, keepdims=True)
    return (
        tf.exp(tf.reshape(tf.reshape(rows, (*largest.shape[:-1], c // 2)) - largest, x.shape))
        + bias
    )


@pytest.mark.parametrize("function", [group_norm, group_norm_of_joined_places, batch_norm, heads])
@pytest.mark.parametrize("as_on_a_device", [False, True])
def test_gradients_are_those_of_eager_mode(
    function: Any, as_on_a_device: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if as_on_a_device:
        graphs_of(monkeypatch)
    args = [tf.constant(x) for x in (draw(6, 8, 8, 12), draw(12), draw(12))]
    compared(gradients(function), *args)


@pytest.mark.parametrize("norm", [group_norm, group_norm_of_joined_places])
def test_no_array_is_stored_between_the_shapes_of_a_group_norm(
    norm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs_of(monkeypatch)
    args = [tf.constant(x) for x in (draw(6, 8, 8, 12), draw(12), draw(12))]
    compiled = compared(lambda *args: (tf.tanh(norm(*args)),), *args)
    large = [
        value.shape
        for loop in loops_of(compiled, *args)
        for value in loop.results
        if value.size == args[0].size
    ]
    assert large == [(6, 8, 8, 3, 4)]


def test_the_gradient_of_a_batch_norm_makes_two_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs_of(monkeypatch)
    args = [tf.constant(x) for x in (draw(6, 8, 8, 12), draw(12), draw(12))]

    def step(x: Any, gain: Any, bias: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, gain, bias])
            mean, variance = tf.nn.moments(x, (0, 1, 2))
            y = (x - mean) / tf.sqrt(variance + 1e-3) * gain + bias
        return tape.gradient(y, [x, gain, bias], output_gradients=tf.cos(x))

    compiled = compared(step, *args)
    sums = [
        output
        for loop in loops_of(compiled, *args)
        for output in (*loop.loop.stages, *loop.loop.outputs)
        if output.combine is not None
    ]
    assert len(sums) == 4  # the mean, the variance, and two sums with the gradient


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_gradient_of_zeros_is_zero_beside_infinite_factors() -> None:
    """Both sums are the sum of t * x, times a factor that is infinite in one column."""
    x, t = draw(512, 9), draw(512, 9) ** 3
    t[:, 2] = 0.0
    wide = np.linspace(1.0, 2.0, 9)
    wide[2] = np.inf

    def step(x: Any, scale: Any, wide: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([scale, wide])
            y = x * scale * wide
        return tape.gradient(y, [scale, wide], output_gradients=t)

    args = [tf.constant(one) for one in (x, np.ones(9), wide)]
    compared(step, *args)
    assert step(*args)[0][2] == 0.0


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_parts_of_a_concatenation_are_selected(
    axis: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs_of(monkeypatch)
    x = (10 * draw(30, 40)).astype(dtype)
    first = -(10 * draw(30, 40)).astype(dtype)[
        tuple(slice(1) if k == axis else slice(None) for k in (0, 1))
    ]
    if dtype == "float64":
        first[0, 0] = -0.0

    def step(x: Any, first: Any) -> Any:
        kept = x[:-1] if axis == 0 else x[:, :-1]
        shifted = tf.concat([first, kept], axis)
        padded = tf.concat([tf.zeros_like(first), kept], axis)
        return tf.maximum(x, shifted) - shifted, padded * 2 + x

    args = tf.constant(x), tf.constant(first)
    compiled = compared(step, *args)
    assert "concat" not in str(compiled.program(*args))


def test_a_gradient_passes_through_selected_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs_of(monkeypatch)

    def shifted(x: Any) -> Any:
        for _ in range(3):
            x = tf.tanh(x) + tf.concat([tf.ones_like(x[:, :2]), x[:, :-2]], 1) ** 2
        return x

    compared(gradients(shifted), tf.constant(draw(20, 30)))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((6, 1, 32), (6, 4, 8), (((6,), (1,), (4, 8)), ((6,), (4,), (8,)))),
        ((6, 32), (2, 3, 1, 32), (((2, 3), (32,)), ((2,), (3,), (1,), (32,)))),
        ((2, 3, 8), (6, 2, 4), (((2,), (3,), (2, 4)), ((2, 3), (2,), (4,)))),
        ((6, 32), (8, 24), None),
        ((12,), (4, 3), (((4, 3),), ((4,), (3,)))),
    ],
)
def test_splits(first: Any, second: Any, expected: Any) -> None:
    assert common_splits(first, second) == expected
