"""Depthwise convolutions in C, against the general kernels in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.kernels import convolution
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.loops.entry_points import CShapeSpecializer

needs_compiler = pytest.mark.skipif(
    compiler.find() is None, reason="this machine has no C compiler"
)


def made(name: str, operands: Any, params: dict[str, Any]) -> Any:
    described = [(array.shape, array.dtype) for array in operands]
    (kernel,) = CShapeSpecializer().specialize([(name, described, params)])  # type: ignore[list-item]
    return kernel


def random_call(seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Data, filters and options of a random geometry, also with padding beyond the window."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    channels = int(rng.choice([2, 3, 15, 16, 17, 40]))
    spatial = rng.integers(1, (400, 30, 11)[rank - 1], rank)
    window, strides, dilation = (rng.integers(1, 4, rank) for _ in range(3))
    padding = tuple((int(low), int(high)) for low, high in rng.integers(0, 4, (rank, 2)))
    x = rng.normal(size=(int(rng.integers(1, 4)), *spatial, channels))
    w = rng.normal(size=(*window, 1, channels))
    options = {"strides": strides, "dilation": dilation}
    params = {key: tuple(map(int, value)) for key, value in options.items()}
    return x, w, {**params, "padding": padding, "groups": channels}


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_geometries(dtype: str) -> None:
    compared = 0
    for seed in range(60):
        x, w, params = random_call(seed)
        t = np.random.default_rng(seed).normal(size=convolution.conv(x, w, **params).shape)
        for name, operands, more in (
            ("conv", (x, w), {}),
            ("conv_input_gradient", (t, w), {"input_shape": x.shape}),
            ("conv_filter_gradient", (x, t), {"window": w.shape[:-2]}),
        ):
            options = {**params, **more}
            given = [array.astype(dtype) for array in operands]
            kernel = made(name, given, options)
            if kernel is None:
                continue
            found = kernel(*given, **options)
            plain = getattr(convolution, name)
            expected = plain(*[array.astype("float64") for array in given], **options)
            assert found.dtype == dtype
            scale = np.abs(expected).max(initial=1.0)
            np.testing.assert_allclose(
                found, expected, rtol=0, atol=scale * (2e-6 if dtype == "float32" else 1e-14),
                err_msg=f"{name} of geometry {seed}",
            )  # fmt: skip
            compared += 1
    assert compared > 60


@needs_compiler
def test_arrays_that_are_not_contiguous() -> None:
    x, w, params = random_call(11)
    kernel = made("conv", (x, w), params)
    assert kernel is not None

    found = kernel(np.repeat(x, 2, axis=-1)[..., ::2], w, **params)

    np.testing.assert_allclose(found, convolution.conv(x, w, **params))


@needs_compiler
@pytest.mark.parametrize(
    ("channels", "groups", "dtype"),
    [(8, 1, "float32"), (8, 4, "float32"), (8, 8, "float16"), (1, 1, "float32")],
)
def test_what_has_no_kernel_of_its_own(channels: int, groups: int, dtype: str) -> None:
    x = np.zeros((4, 16, 16, channels), dtype)
    w = np.zeros((3, 3, channels // groups, channels), dtype)
    params = {"strides": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "groups": groups}

    assert made("conv", (x, w), params) is None


@needs_compiler
@pytest.mark.parametrize("strides", [1, 2])
def test_a_recorded_layer_and_its_gradients(strides: int) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 20, 21, 6)), rng.normal(size=(3, 3, 6, 1))

    def step(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.nn.depthwise_conv2d(x, w, [1, strides, strides, 1], "SAME")
            loss = tf.reduce_sum(tf.sin(y))
        return loss, *tape.gradient(loss, [x, w])

    recorded = tf.function(step)
    given = tf.constant(x), tf.constant(w)
    for _ in range(2):
        found = recorded(*given)

    for one, other in zip(found, step(*given), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-11, atol=1e-12)
