"""The convolution of few channels, run on the host, against the generic kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapegrad.ops.convolution.primitives import conv_p
from tests.house.host_cuda import run_kernel

pytest.importorskip("cupy")
few = pytest.importorskip("tapegrad_cupy.kernels.convolution.few_channels")
patches = pytest.importorskip("tapegrad_cupy.kernels.convolution.patches")
windows = pytest.importorskip("tapegrad_cupy.kernels.convolution.windows")

CASES: list[dict[str, Any]] = [
    {"spatial": (7, 9), "window": (3, 3), "padding": ((1, 1), (1, 1))},
    {"spatial": (7, 9), "window": (3, 2), "padding": ((0, 0), (1, 0)), "channels": (2, 3, 1)},
    {"spatial": (6, 8), "window": (3, 3), "padding": ((1, 1), (1, 1)), "channels": (4, 4, 4)},
    {"spatial": (6, 8), "window": (2, 3), "padding": ((0, 0), (2, 2)), "channels": (2, 6, 2)},
    {"spatial": (11,), "window": (5,), "padding": ((2, 2),), "channels": (2, 5, 1)},
    {"spatial": (4, 5, 6), "window": (3, 3, 3), "padding": ((1, 1),) * 3, "channels": (1, 2, 1)},
    {"spatial": (9, 9), "window": (3, 3), "padding": ((2, 1), (2, 2)), "dilation": (2, 1)},
    {"spatial": (9, 10), "window": (3, 3), "padding": ((1, 1), (0, 1)), "strides": (2, 3)},
]


def convolution(case):
    c_in, c_out, groups = case.get("channels", (1, 1, 1))
    rank = len(case["spatial"])
    ones = (1,) * rank
    by = windows.find_windows(
        case["spatial"], case["window"], case.get("strides", ones), case["padding"],
        case.get("dilation", ones),
    )  # fmt: skip
    return patches.Convolution(2, by, c_in, c_out, groups, np.dtype(np.float64))


def run(conv, a, b, shape, reverse):
    share = conv.c_out // conv.groups
    fan, share = (share, conv.fan_in) if reverse else (conv.fan_in, share)
    by = few._reversed(conv.windows) if reverse else conv.windows
    spatial, counts, low, form = few._in_three_axes("float64", by, fan, share, reverse)
    total = conv.batch * counts[0] * -(-counts[1] // form.positions) * counts[2] * conv.groups
    result = np.full(shape, 7.0)
    numbers = [total, conv.groups, *spatial, *counts, *low]
    run_kernel(form.text(), "few_channels", [a, b, result, *numbers], -(-total // 256), 256)
    return result


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_values_and_gradients(case):
    conv = convolution(case)
    assert few._is_small(conv)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=conv.input_shape), rng.normal(size=conv.filter_shape)
    by = conv.windows
    params = {"strides": by.strides, "padding": by.padding, "dilation": by.dilation}
    generic = conv_p.generic_kernel(np)
    expected = generic(x, w, groups=conv.groups, **params)
    np.testing.assert_allclose(run(conv, x, w, conv.output_shape, False), expected, rtol=1e-12)
    if any(stride > 1 for stride in by.strides):
        return
    t = rng.normal(size=conv.output_shape)
    found = run(conv, t, w, conv.input_shape, True)
    # The adjoint: <conv(x), t> = <x, gradient(t)> for all x, so for those with a single 1.
    for _ in range(20):
        unit = np.zeros(conv.input_shape)
        place = tuple(rng.integers(0, n) for n in unit.shape)
        unit[place] = 1.0
        y = generic(unit, w, groups=conv.groups, **params)
        np.testing.assert_allclose(found[place], (y * t).sum(), rtol=1e-11, atol=1e-12)


def test_many_channels_are_left_to_the_libraries():
    base = {"spatial": (8, 8), "window": (3, 3), "padding": ((1, 1), (1, 1))}
    assert not few._is_small(convolution({**base, "channels": (4, 4, 1)}))
    assert not few._is_small(convolution({**base, "channels": (32, 32, 32)}))
    assert few._is_small(convolution({**base, "channels": (16, 16, 16)}))
