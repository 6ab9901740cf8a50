"""Convolutions run in sequences and agree with sums that are written out as loops."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.sequences import direct_convolution
from tests.program.native_calls import run_native, sequences_of

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(11)

# Shapes of data and filters, strides, padding, dilation, groups.
GEOMETRIES: dict[str, tuple[Any, ...]] = {
    "padded": ((2, 9, 8, 5), (3, 3, 5, 7), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "strides": ((1, 11, 9, 3), (3, 2, 3, 4), (2, 3), ((0, 2), (1, 0)), (1, 1), 1),
    "a dilation": ((2, 9, 10, 2), (3, 2, 2, 3), (2, 1), ((2, 2), (1, 1)), (2, 3), 1),
    "groups": ((2, 6, 5, 6), (2, 3, 3, 4), (1, 1), ((1, 0), (1, 1)), (1, 1), 2),
    "pointwise": ((2, 5, 6, 7), (1, 1, 7, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "pointwise in groups": ((2, 5, 6, 4), (1, 1, 2, 6), (1, 1), ((0, 0), (0, 0)), (1, 1), 2),
    "far outside": ((1, 3, 4, 2), (2, 2, 2, 2), (2, 2), ((5, 3), (4, 6)), (1, 1), 1),
    "one axis": ((3, 10, 4), (4, 4, 3), (3,), ((1, 2),), (1,), 1),
    "three axes": (
        (2, 4, 5, 6, 2), (2, 3, 2, 2, 3), (2, 1, 2), ((0, 0), (1, 1), (0, 1)), (1, 1, 1), 1
    ),
    "many channels": ((2, 6, 9, 3), (3, 3, 3, 70), (1, 2), ((1, 1), (0, 1)), (1, 1), 1),
    "several tiles": ((3, 40, 37, 16), (5, 5, 16, 2), (1, 1), ((2, 2), (2, 2)), (1, 1), 1),
}  # fmt: skip
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def written_out(x: Any, w: Any, strides: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Return the convolution in double precision, one element of the window after the other."""
    x = np.pad(x.astype(np.float64), ((0, 0), *padding, (0, 0)))
    w, window = w.astype(np.float64), w.shape[:-2]
    sizes = [
        (size - (extent - 1) * step - 1) // stride + 1
        for size, extent, stride, step in zip(x.shape[1:-1], window, strides, dilation)
    ]
    y = np.zeros((x.shape[0], *sizes, w.shape[-1]))
    fan, out = w.shape[-2], w.shape[-1] // groups
    for place in product(*map(range, window)):
        part = tuple(
            slice(at * step, at * step + (size - 1) * stride + 1, stride)
            for at, step, size, stride in zip(place, dilation, sizes, strides)
        )
        for g in range(groups):
            given = x[(slice(None), *part, slice(g * fan, (g + 1) * fan))]
            own = slice(g * out, (g + 1) * out)
            y[..., own] += given @ w[place][:, own]
    return y


def case(name: str) -> tuple[Any, ...]:
    shape, filters, *rest = GEOMETRIES[name]
    return rng.normal(size=shape), rng.normal(size=filters), *rest


def run(name: str, arrays: Any, shape: Any, dtype: Any, geometry: Any, **params: Any) -> Any:
    names = ("strides", "padding", "dilation", "groups")
    given = [array.astype(dtype) for array in arrays]
    found = run_native(name, given, {**params, **dict(zip(names, geometry))}, [(shape, dtype)])
    assert found is not None
    return found[0].astype(np.float64)


def check(name: str, dtype: Any, tolerance: float) -> None:
    """Compare a convolution and its transposes, which have the same products with each other."""
    x, w, *geometry = case(name)
    x, w = (array.astype(dtype).astype(np.float64) for array in (x, w))
    expected = written_out(x, w, *geometry)
    scale = np.abs(expected).max() * np.sqrt(w[..., 0].size)
    found = run("conv", (x, w), expected.shape, dtype, geometry)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)
    t = rng.normal(size=expected.shape).astype(dtype).astype(np.float64)
    of_x = run("conv_input_gradient", (t, w), x.shape, dtype, geometry, input_shape=x.shape)
    of_w = run("conv_filter_gradient", (x, t), w.shape, dtype, geometry, window=w.shape[:-2])
    for values, gradient in ((x, of_x), (w, of_w)):
        # Both are linear: <t, conv(d)> = <gradient, d> for any d.
        direction = rng.normal(size=values.shape)
        moved = (direction, w) if values is x else (x, direction)
        product_of_both = np.sum(t * written_out(*moved, *geometry))
        size = np.sqrt(np.sum(gradient**2) * np.sum(direction**2))
        assert abs(np.sum(gradient * direction) - product_of_both) <= 10 * tolerance * size


@pytest.mark.parametrize(("name", "dtype"), [*product(GEOMETRIES, TOLERANCE)])
def test_convolutions_and_their_transposes(name: str, dtype: str) -> None:
    check(name, np.dtype(dtype), TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["padded", "groups", "pointwise", "several tiles"])
def test_bfloat16_is_rounded_once(name: str) -> None:
    check(name, tf.bfloat16.as_numpy_dtype, 2.0**-8)


@pytest.mark.parametrize("is_direct", [False, True])
def test_both_ways_are_used_on_all_machines(
    is_direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_convolution, "is_direct", lambda *_: is_direct)
    for name in ("strides", "far outside", "three axes"):
        check(name, np.dtype("float32"), TOLERANCE["float32"])


def test_depthwise_and_mixed_calls_are_left_to_others() -> None:
    params = {"strides": (1,), "padding": ((0, 0),), "dilation": (1,)}
    x, w = np.ones((1, 5, 4), np.float32), np.ones((2, 1, 8), np.float32)
    described = [((1, 4, 8), np.float32)]
    assert run_native("conv", [x, w], {**params, "groups": 4}, described) is None
    half = np.ones((2, 4, 8), np.float16)
    assert run_native("conv", [x, half], {**params, "groups": 1}, described) is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_with_convolutions_is_one_sequence(dtype: str) -> None:
    def step(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.nn.conv2d(tf.cast(tf.tanh(x), dtype), tf.cast(w, dtype), 2, "SAME")
            loss = tf.reduce_sum(tf.cast(y, "float32") ** 2)
        return loss, *tape.gradient(loss, [x, w])

    x = tf.constant(rng.normal(size=(2, 8, 8, 3)).astype(np.float32))
    w = tf.constant(rng.normal(size=(3, 3, 3, 4)).astype(np.float32))
    function = tf.function(step)
    tolerance = 1e-5 if dtype == "float32" else 2e-2
    for _ in range(2):
        for one, other in zip(function(x, w), step(x, w), strict=True):
            scale = np.abs(other.numpy()).max()
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=0, atol=tolerance * scale)
    (sequence,) = sequences_of(function, x, w)
    names = {getattr(s, "primitive", None) and s.primitive.name for s in sequence.steps}
    assert {"conv", "conv_input_gradient", "conv_filter_gradient"} <= names
